//! `whittle prices`: a Region's table of on-demand prices, from answers of the AWS Price List.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use aws_rules::prices::Products;
use clap::{Args, ValueHint};
use model::NanosPerHour;
use serde::{Deserialize, Serialize};

use crate::{
    catalogs,
    output::{Row, TextOutput},
};

#[derive(Args)]
#[command(after_help = "Examples:
  aws pricing get-products --service-code AmazonEC2 --region us-east-1 --filters \\
    Type=TERM_MATCH,Field=regionCode,Value=eu-west-1 Type=TERM_MATCH,Field=operatingSystem,Value=Linux \\
    Type=TERM_MATCH,Field=preInstalledSw,Value=NA Type=TERM_MATCH,Field=capacitystatus,Value=Used \\
    Type=TERM_MATCH,Field=marketoption,Value=OnDemand Type=TERM_MATCH,Field=tenancy,Value=Shared \\
    'Type=TERM_MATCH,Field=productFamily,Value=Compute Instance' > shared.json
  whittle prices --region eu-west-1 shared.json bare-metal.json > eu-west-1.tsv
  whittle prices --region eu-west-1 shared.json -o table")]
pub(crate) struct Arguments {
    /// Region of the answers
    #[arg(long)]
    region: String,
    /// Answers of GetProducts as JSON, plain or gzipped
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    answers: Vec<PathBuf>,
    #[command(flatten)]
    output: TextOutput,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    price_list: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut text = format!(
        "# On-demand prices in {}: instance type and amount per hour, Linux, shared tenancy or bare metal (AWS Price List).\n",
        arguments.region
    );
    let mut all = Products::default();
    for file in &arguments.answers {
        let read = read(file, &arguments.region)?;
        all.unreadable += read.unreadable;
        all.prices.extend(read.prices);
    }
    let price = |(instance_type, price): (&_, &NanosPerHour)| Price {
        instance_type: String::clone(instance_type),
        price: amount(price.0),
    };
    let prices: Vec<Price> = all.prices.iter().map(price).collect();
    for price in &prices {
        let _ = writeln!(text, "{}\t{}", price.instance_type, price.price);
    }
    if all.unreadable > 0 {
        eprintln!(
            "whittle: {} entries are no products with a price and were left out",
            all.unreadable
        );
    }
    arguments.output.print(&text, &prices, &prices)
}

/// Price of an instance type, in the Region's currency per hour.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Price {
    instance_type: String,
    price: String,
}

impl Row for Price {
    const HEADERS: &'static [&'static str] = &["INSTANCE TYPE", "PRICE/H"];
    const NARROW: usize = 2;

    fn cells(&self) -> Vec<String> {
        vec![self.instance_type.clone(), self.price.clone()]
    }

    fn name(&self) -> String {
        self.instance_type.clone()
    }
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
