//! Cost of the catalog for a cold function: loading a Region's offerings, and resolving every instance type through a NodeClass.
//!
//!     cargo bench -p whittle --bench catalog -- FOLDER
//!
//! FOLDER holds raw EC2 answers as the AWS CLI prints them, gzipped: `describe-instance-types.json.gz`,
//! `instance-type-offerings.json.gz` and `spot-prices.json.gz`. They are made into one catalog object first; a process of its
//! own then loads it, as often as said below, so that memory is that of one load.
#![expect(clippy::print_stdout, reason = "printing is what a measurement is for")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use api::EC2NodeClass;
use aws_rules::{
    ProviderSettings,
    instance_types::{InstanceTypeInfo, RegionCatalog, ResolveInput, instance_types},
    prices::{SpotRecord, shipped_prices, spot_prices},
};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

const REGION: &str = "us-east-1";
/// Makes this program the one that loads.
const LOAD: &str = "load";
const RUNS: usize = 11;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Types {
    instance_types: Vec<InstanceTypeInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offerings {
    instance_type_offerings: Vec<Offering>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offering {
    instance_type: String,
    location: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpotHistory {
    spot_price_history: Vec<SpotRecord>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    match arguments.as_slice() {
        [load, object] if load == LOAD => measure(Path::new(object)),
        [folder] => compare(Path::new(folder)),
        _ => bail!(
            "expected a folder of raw EC2 answers: cargo bench -p whittle --bench catalog -- FOLDER"
        ),
    }
}

/// Makes the object, then has it loaded by fresh processes.
fn compare(folder: &Path) -> Result<()> {
    let catalog = catalog(folder)?;
    let object = tempfile::NamedTempFile::new()?;
    let text = serde_json::to_vec(&catalog)?;
    let mut packed = GzEncoder::new(object.reopen()?, Compression::best());
    packed.write_all(&text)?;
    packed.finish()?;
    println!(
        "catalog object: {} instance types, {} KiB, {} KiB gzipped",
        catalog.instance_types.len(),
        text.len() / 1024,
        object.path().metadata()?.len() / 1024
    );
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let answer = Command::new(std::env::current_exe()?)
            .arg(LOAD)
            .arg(object.path())
            .output()?;
        if !answer.status.success() {
            bail!("{}", String::from_utf8_lossy(&answer.stderr));
        }
        let run: Run = serde_json::from_slice(&answer.stdout)?;
        runs.push(run);
    }
    for (name, of) in [
        ("load, CPU", (|run| run.load_cpu) as fn(&Run) -> f64),
        ("resolve all types, CPU", |run| run.resolve_cpu),
        ("both, wall", |run| run.wall),
    ] {
        println!("{name}: {:.1} ms (median of {RUNS})", median(&runs, of));
    }
    println!(
        "resident at most: {:.1} MiB",
        median(&runs, |run| run.peak_mib)
    );
    Ok(())
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Times in milliseconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    load_cpu: f64,
    resolve_cpu: f64,
    wall: f64,
    peak_mib: f64,
}

fn measure(object: &Path) -> Result<()> {
    let class = node_class()?;
    let (start, began) = (Instant::now(), cpu());
    let catalog: RegionCatalog = document(object)?;
    let loaded = cpu();
    let through = ResolveInput {
        node_class: &class,
        settings: &ProviderSettings::default(),
        measured_memory: &[],
        placement_group: None,
    };
    let types = instance_types(&catalog, through)?;
    let (resolved, wall) = (cpu(), start.elapsed());
    if types.len() != catalog.instance_types.len() {
        bail!(
            "{} types were resolved of {}",
            types.len(),
            catalog.instance_types.len()
        );
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let run = json!({
        "loadCpu": milliseconds(loaded.saturating_sub(began)),
        "resolveCpu": milliseconds(resolved.saturating_sub(loaded)),
        "wall": milliseconds(wall),
        "peakMib": peak_mib()?,
    });
    println!("{run}");
    Ok(())
}

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn peak_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: f64 = kib
        .context("the kernel does not say how much memory was used")?
        .parse()?;
    Ok(kib / 1024.0)
}

fn catalog(folder: &Path) -> Result<RegionCatalog> {
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let types: Types = document(&file("describe-instance-types.json.gz"))?;
    let offerings: Offerings = document(&file("instance-type-offerings.json.gz"))?;
    let history: SpotHistory = document(&file("spot-prices.json.gz"))?;
    let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for offering in offerings.instance_type_offerings {
        let of_type = zones.entry(offering.instance_type).or_default();
        of_type.insert(offering.location);
    }
    Ok(RegionCatalog {
        region: REGION.to_owned(),
        instance_types: types.instance_types,
        zones,
        on_demand: shipped_prices(REGION),
        spot: Some(spot_prices(history.spot_price_history)),
    })
}

fn document<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let open = File::open(file).with_context(|| file.display().to_string())?;
    let mut text = Vec::new();
    // Parsing a slice costs a third of parsing a reader.
    GzDecoder::new(open)
        .read_to_end(&mut text)
        .with_context(|| file.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| file.display().to_string())
}

/// An AL2023 NodeClass with a subnet in every zone.
fn node_class() -> Result<EC2NodeClass> {
    let subnets: Vec<Value> = ('a'..='f')
        .map(|zone| {
            let id = format!("use1-az-{zone}");
            json!({ "id": format!("subnet-{zone}"), "zone": format!("{REGION}{zone}"), "zoneID": id })
        })
        .collect();
    let manifest = json!({
        "metadata": { "name": "default" },
        "spec": {
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "bench" } }],
            "securityGroupSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "bench" } }],
            "role": "KarpenterNodeRole-bench",
        },
        "status": { "subnets": subnets },
    });
    Ok(serde_json::from_value(manifest)?)
}
