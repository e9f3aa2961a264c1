use std::sync::Arc;

use dynamo::SqsWakes;
use ledger::RateLimiter;
use model::{Lane, budget::Priority, ledger::SCHEMA};
use ports::Clock;
use turns::{Share, World};

use crate::{Config, ConfigError, SystemClock, connect::Connections, metrics::EmbeddedMetrics};

/// Builds the real world of a lane's function, once per cold start. Makes no calls: clients connect when they are first used.
pub(crate) async fn build(lane: Lane) -> Result<World, ConfigError> {
    let config = Config::from_env()?;
    let caller = format!("whittle-{lane}");
    let sdk = ec2::sdk_config(&caller).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ledger = dynamo::ledger(&sdk, &config.table, &config.account, &config.region);
    let ledger = Arc::new(ledger.with_schema_version(config.schema.unwrap_or(SCHEMA)));
    let rate_limiter = RateLimiter::new(ledger.clone(), Arc::clone(&clock), Priority::of(lane));
    let options = ec2::Options {
        cluster_role: config.cluster_role,
        registry_prefix: config.registry_prefix,
        credentials_prefix: Some(config.credentials_prefix),
        budget: Some(Arc::new(rate_limiter)),
        object_store: Some(ledger.clone()),
    };
    let account = Arc::new(ec2::Account::new(&sdk, options, Arc::clone(&clock)));
    Ok(World {
        cloud: account.clone(),
        upkeep: account.clone(),
        notifier: account.clone(),
        journal: ledger.clone(),
        ledger,
        archive: Arc::new(ec2::Bucket::new(&sdk, &config.bucket, Arc::clone(&clock))),
        wakes: Arc::new(SqsWakes::new(&sdk, config.queues)),
        catalog: account.clone(),
        node_classes: account.clone(),
        launches: account.clone(),
        registry: account.clone(),
        clusters: Arc::new(Connections::new(account, Arc::clone(&clock), caller)),
        clock,
        metrics: Arc::new(EmbeddedMetrics {
            stack: config.stack.clone(),
            level: config.log_level,
        }),
        holder: format!(
            "whittle/{}/{}/{}",
            config.account, config.region, config.stack
        ),
        share: Share::TURN,
        views: Arc::default(),
        heartbeats: Arc::default(),
        reach: config.reach,
    })
}
