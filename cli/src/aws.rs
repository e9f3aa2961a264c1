//! AWS, in the Region and with the credentials of the environment (`AWS_REGION`, `AWS_PROFILE` …).

mod access;
pub(crate) mod caps;
mod checks;
pub(crate) mod clusters;
pub(crate) mod init;
pub(crate) mod pauses;
pub(crate) mod registry;
pub(crate) mod requests;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod unregister;

use std::{io::Write, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use api::EC2NodeClass;
use jiff::Timestamp;
use model::{ClusterName, Experience, InstanceType};
use ports::{AccountHousekeeping, Catalog, Clock};
use serde_json::Value;

/// Name of this program in CloudTrail.
const PROGRAM: &str = "whittle";

/// The ledger and the bucket of a stack.
pub(crate) async fn memory_of(stack: &str) -> Result<(ledger::TableLedger, ec2::Bucket)> {
    let config = ec2::sdk_config(PROGRAM).await;
    let clock: Arc<dyn Clock> = Arc::new(FixedClock(crate::moment::now()));
    let account = ec2::Account::new(&config, ec2::Options::default(), Arc::clone(&clock));
    let memory = account.memory(stack).await.with_context(|| {
        format!(
            "cannot find stack {stack} in {}: --stack names the stack, and AWS_REGION its Region",
            account.region()
        )
    })?;
    let ledger = dynamo::ledger(&config, &memory.table, &memory.account, account.region());
    Ok((ledger, ec2::Bucket::new(&config, &memory.bucket, clock)))
}

/// The error of a command about a cluster that the ledger does not know.
fn unknown_to_ledger(cluster: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "the ledger knows no cluster {cluster}: whittle clusters shows those that are registered, and one that was registered \
         just now is known within a minute"
    )
}

/// Instance types of EC2 in the Region of the environment.
pub(crate) struct Region {
    account: ec2::Account,
}

impl Region {
    /// Connects to EC2. Returns warnings about prices, too.
    pub(crate) async fn connect(now: Timestamp) -> (Self, Vec<String>) {
        let config = ec2::sdk_config(PROGRAM).await;
        let account =
            ec2::Account::new(&config, ec2::Options::default(), Arc::new(FixedClock(now)));
        let problems = account.renew_prices(true, now).await;
        (Self { account }, problems)
    }

    /// Name of the Region.
    pub(crate) fn name(&self) -> &str {
        self.account.region()
    }

    /// The instance types that the NodeClass allows.
    pub(crate) async fn instance_types(
        &self,
        class: &EC2NodeClass,
    ) -> Result<Arc<Vec<InstanceType>>> {
        let cluster = ClusterName::from("plan");
        let (settings, experience) = (Value::Null, Experience::default());
        let types = self
            .account
            .instance_types(&cluster, class, &settings, &experience);
        types.await.with_context(|| {
            format!(
                "cannot ask EC2 for the instance types of EC2NodeClass {}; --catalog names a file of them instead",
                class.metadata.name
            )
        })
    }
}

/// The instance types of the environment's Region, as an EC2NodeClass without settings in all of its zones has them, and warnings about
/// prices.
pub(crate) async fn catalog(now: Timestamp) -> Result<(Vec<InstanceType>, Vec<String>)> {
    // No Region has zones with other letters.
    const ZONES: std::ops::RangeInclusive<char> = 'a'..='h';
    let (region, problems) = Region::connect(now).await;
    let name = region.account.region();
    let subnets: Vec<Value> = ZONES
        .map(|letter| serde_json::json!({"id": format!("subnet-{letter}"), "zone": format!("{name}{letter}")}))
        .collect();
    let class: EC2NodeClass = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "catalog"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "catalog", "subnetSelectorTerms": [],
            "securityGroupSelectorTerms": [],
        },
        "status": {"subnets": subnets},
    }))?;
    let mut types = region.instance_types(&class).await?.as_ref().clone();
    for instance_type in &mut types {
        let zones = instance_type
            .requirements
            .get(model::labels::ZONE)
            .map(|zones| zones.values.clone());
        let zones = zones.unwrap_or_default();
        instance_type
            .offerings
            .retain(|offering| zones.contains(&offering.zone));
    }
    types.retain(|instance_type| !instance_type.offerings.is_empty());
    Ok((types, problems))
}

/// Writes the time until which held-back resources may be collected into a cluster's registry entry.
pub(crate) async fn approve(
    cluster: &str,
    registry: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<()> {
    let options = ec2::Options {
        registry_prefix: registry.trim_end_matches('/').to_owned(),
        ..ec2::Options::default()
    };
    let account = ec2::Account::new(
        &ec2::sdk_config(PROGRAM).await,
        options,
        Arc::new(FixedClock(now)),
    );
    let approval = serde_json::json!({ "collectUntil": until.to_string() });
    let change = |entry: &mut serde_json::Map<String, Value>| {
        entry.insert("approvals".to_owned(), approval);
    };
    Ok(account.change_entry(&cluster.into(), change).await?)
}

/// Interval between reads of the ledger; the sweep runs every minute.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Seconds between messages about a wait.
const PROGRESS_SECONDS: u64 = 30;

/// Waits until a condition holds, with progress on standard error; returns whether it does.
pub(crate) async fn until(
    timeout: Duration,
    what: &str,
    is_so: impl AsyncFn() -> Result<bool>,
) -> Result<bool> {
    let mut waited = Duration::ZERO;
    while !is_so().await? {
        if waited >= timeout {
            return Ok(false);
        }
        if waited.as_secs().is_multiple_of(PROGRESS_SECONDS) {
            let (waited, most) = (waited.as_secs(), timeout.as_secs());
            writeln!(
                std::io::stderr(),
                "whittle: waiting for {what}, {waited} of at most {most} s …"
            )?;
        }
        let next = POLL_INTERVAL.min(timeout - waited);
        tokio::time::sleep(next).await;
        waited += next;
    }
    Ok(true)
}

/// Clock of a command, which has one time.
struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}
