//! `whittle prices`: a Region's table of on-demand prices, from answers of the AWS Price List.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use aws_rules::prices::Products;
use clap::Args;
use serde::Deserialize;

use crate::catalogs;

/// The answers come from the Pricing API, for shared tenancy and for bare metal:
///
///   aws pricing get-products --service-code AmazonEC2 --region us-east-1 --filters
///     Type=TERM_MATCH,Field=regionCode,Value=eu-west-1 Type=TERM_MATCH,Field=operatingSystem,Value=Linux
///     Type=TERM_MATCH,Field=preInstalledSw,Value=NA Type=TERM_MATCH,Field=capacitystatus,Value=Used
///     Type=TERM_MATCH,Field=marketoption,Value=OnDemand Type=TERM_MATCH,Field=tenancy,Value=Shared
///     'Type=TERM_MATCH,Field=productFamily,Value=Compute Instance' > shared.json
///
/// and the same with tenancy Dedicated and product family "Compute Instance (bare metal)". A table that is put into
/// shared/aws-rules/data/on-demand-prices and named in shared/aws-rules/src/prices/shipped.rs ships with Whittle.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Region of the answers
    #[arg(long)]
    region: String,
    /// Answers of GetProducts as JSON, plain or gzipped
    #[arg(required = true)]
    answers: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    price_list: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut table = std::io::stdout().lock();
    writeln!(
        table,
        "# On-demand prices in {}: instance type and amount per hour, Linux, shared tenancy or bare metal (AWS Price List).",
        arguments.region
    )?;
    let mut all = Products::default();
    for file in &arguments.answers {
        let read = read(file, &arguments.region)?;
        all.unreadable += read.unreadable;
        all.prices.extend(read.prices);
    }
    for (instance_type, price) in &all.prices {
        writeln!(table, "{instance_type}\t{}", amount(price.0))?;
    }
    if all.unreadable > 0 {
        eprintln!(
            "whittle: {} entries are no products with a price and were left out",
            all.unreadable
        );
    }
    Ok(())
}

fn read(file: &Path, region: &str) -> Result<Products> {
    let answer: Answer = serde_json::from_reader(catalogs::open(file)?).with_context(|| {
        format!(
            "{}: no answer of aws pricing get-products: expected an object with PriceList",
            file.display()
        )
    })?;
    let read = Products::read(region, &answer.price_list);
    if read.prices.is_empty() {
        bail!(
            "{}: none of its {} products has a price in {region}'s currency",
            file.display(),
            answer.price_list.len()
        );
    }
    Ok(read)
}

/// An amount without insignificant digits.
fn amount(nanos: i64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_are_exact_and_short() {
        for (nanos, text) in [
            (96_000_000, "0.096"),
            (12_000_000_000, "12"),
            (1, "0.000000001"),
        ] {
            assert_eq!(amount(nanos), text);
        }
    }
}
