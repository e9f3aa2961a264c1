use std::sync::Arc;

use aws_config::SdkConfig;
use aws_credential_types::provider::SharedCredentialsProvider;
use model::{ClusterName, budget::Api};
use ports::{Budget, BudgetExhausted, Clock, CloudError, ObjectStore};

use crate::{
    catalog::{CatalogCache, ResolvedTypes},
    discovery::{ProfileCache, ValidationCache},
    meter::metered,
    prices::PriceCache,
    sdk::with_short_timeouts,
    session::Sessions,
};

/// One AWS account in one Region: implements the ports through which turns use AWS.
///
/// Reads use the function's own credentials; writes use a session of the cluster they are for.
#[derive(Clone)]
pub struct Account {
    pub(crate) autoscaling: aws_sdk_autoscaling::Client,
    pub(crate) ec2: aws_sdk_ec2::Client,
    pub(crate) eks: aws_sdk_eks::Client,
    pub(crate) iam: aws_sdk_iam::Client,
    pub(crate) pricing: aws_sdk_pricing::Client,
    pub(crate) ssm: aws_sdk_ssm::Client,
    pub(crate) sts: aws_sdk_sts::Client,
    /// Configuration of every client.
    pub(crate) config: SdkConfig,
    /// The function's own credentials.
    pub(crate) credentials: Option<SharedCredentialsProvider>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) catalog: Arc<CatalogCache>,
    pub(crate) resolved: Arc<ResolvedTypes>,
    pub(crate) prices: Arc<PriceCache>,
    pub(crate) profiles: Arc<ProfileCache>,
    pub(crate) validations: Arc<ValidationCache>,
    pub(crate) budget: Option<Arc<dyn Budget>>,
    pub(crate) object_store: Option<Arc<dyn ObjectStore>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) region: String,
    pub(crate) registry_prefix: String,
    pub(crate) credentials_prefix: Option<String>,
}

#[derive(Clone, Default)]
pub struct Options {
    /// The role to assume for writes, with the session tag `cluster`; without one, writes use the function's credentials.
    pub cluster_role: Option<String>,
    /// Path of the registry entries in Parameter Store, such as `/whittle/clusters`.
    pub registry_prefix: String,
    /// Path of the credentials of clusters outside EKS, such as `/whittle/credentials`, each cluster's under its own name. Without it any
    /// path that names the cluster belongs to the cluster.
    pub credentials_prefix: Option<String>,
    /// API budget of EC2 calls; without one, calls are not counted.
    pub budget: Option<Arc<dyn Budget>>,
    /// Store of published prices; without one, the bundled prices are used.
    pub object_store: Option<Arc<dyn ObjectStore>>,
}

impl Account {
    pub fn new(config: &SdkConfig, options: Options, clock: Arc<dyn Clock>) -> Self {
        Self {
            autoscaling: aws_sdk_autoscaling::Client::new(config),
            ec2: aws_sdk_ec2::Client::new(&metered(config, options.budget.as_ref())),
            eks: aws_sdk_eks::Client::new(config),
            iam: aws_sdk_iam::Client::new(&with_short_timeouts(config)),
            pricing: aws_sdk_pricing::Client::new(config),
            ssm: aws_sdk_ssm::Client::new(config),
            sts: aws_sdk_sts::Client::new(config),
            config: config.clone(),
            credentials: config.credentials_provider(),
            sessions: Arc::new(Sessions::new(
                config.clone(),
                options.cluster_role,
                options.budget.clone(),
            )),
            catalog: Arc::default(),
            resolved: Arc::default(),
            prices: Arc::default(),
            profiles: Arc::default(),
            validations: Arc::default(),
            budget: options.budget,
            object_store: options.object_store,
            clock,
            region: config.region().map(ToString::to_string).unwrap_or_default(),
            registry_prefix: options.registry_prefix,
            credentials_prefix: options.credentials_prefix,
        }
    }

    /// EC2 client for writes on behalf of this cluster.
    pub(crate) async fn ec2_of(&self, cluster: &ClusterName) -> aws_sdk_ec2::Client {
        self.sessions.ec2(cluster).await
    }

    /// Reserves a call of this API in the budget.
    pub(crate) async fn hold(&self, api: Api, action: &str) -> Result<(), CloudError> {
        let Some(budget) = &self.budget else {
            return Ok(());
        };
        let held = budget.hold(api).await;
        held.map_err(|BudgetExhausted { until }| CloudError::Postponed {
            action: action.to_owned(),
            until,
        })
    }
}
