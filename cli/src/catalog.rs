//! `whittle catalog`: a Region's instance types as a file for `whittle plan --catalog`.

#[cfg(any(feature = "aws", test))]
mod file;

use anyhow::Result;
use clap::Args;

use crate::output::Format;
#[cfg(feature = "aws")]
use crate::{output, progress::Progress};

#[derive(Args)]
#[command(after_help = "Examples:
  AWS_REGION=eu-west-1 whittle catalog > eu-west-1.json
  whittle plan -f manifests --catalog eu-west-1.json
  whittle catalog -o table")]
pub(crate) struct Arguments {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "json")]
    output: Format,
    /// Print tables without headers
    #[arg(long)]
    no_headers: bool,
}

#[cfg(feature = "aws")]
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let progress = Progress::of("Reading instance types and prices of EC2");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (types, problems) = runtime.block_on(crate::aws::catalog(crate::moment::now()))?;
    drop(progress);
    for problem in problems {
        eprintln!("whittle: {problem}");
    }
    if arguments.output == Format::Json {
        // Without indentation, which would double the size of the file.
        serde_json::to_writer(std::io::stdout().lock(), &file::of(&types))?;
        return Ok(());
    }
    let has_headers = !arguments.no_headers;
    output::print(arguments.output, has_headers, &types, &file::of(&types))
}

#[cfg(not(feature = "aws"))]
pub(crate) fn run(_: &Arguments) -> Result<()> {
    anyhow::bail!("this program is built without AWS: build it with `--features aws`")
}

#[cfg(feature = "aws")]
impl output::Row for model::InstanceType {
    const HEADERS: &'static [&'static str] = &[
        "INSTANCE TYPE",
        "CPU",
        "MEMORY",
        "ON-DEMAND/H",
        "SPOT/H",
        "ARCH",
        "ZONES",
    ];
    const NARROW: usize = 5;

    fn cells(&self) -> Vec<String> {
        use model::{
            CapacityType,
            labels::{ARCH, ZONE},
            resources::{CPU, MEMORY, amount_text},
        };
        let amount = |name: &str| amount_text(name, self.capacity.get(name));
        let cheapest = |capacity_type: CapacityType| {
            let offerings = self.offerings.iter();
            let sold = offerings
                .filter(|offering| offering.available && offering.capacity_type == capacity_type);
            let price = sold.map(|offering| offering.price).min();
            price.map_or_else(String::new, |price| format!("${price}"))
        };
        let values = |label: &str| {
            let requirement = self.requirements.get(label);
            let values = requirement.map(|requirement| &requirement.values);
            let values: Vec<&str> = values.into_iter().flatten().map(String::as_str).collect();
            values.join(",")
        };
        vec![
            self.name.clone(),
            amount(CPU),
            amount(MEMORY),
            cheapest(CapacityType::OnDemand),
            cheapest(CapacityType::Spot),
            values(ARCH),
            values(ZONE),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
