use std::sync::Arc;

use aws_config::SdkConfig;
use aws_credential_types::provider::SharedCredentialsProvider;
use model::{ClusterName, budget::Api};
use ports::{Budget, Clock, CloudError, Shelf, Spent};

use crate::{
    catalog::{CatalogCache, Resolved},
    discovery::{ProfileCache, ValidationCache},
    meter::metered,
    prices::PriceCache,
    sdk::impatient,
    session::Sessions,
};

/// One AWS account in one Region: implements the ports that turns reach AWS through.
///
/// Reads use the function's own credentials; writes a session of the cluster they are for.
#[derive(Clone)]
pub struct Account {
    pub(crate) autoscaling: aws_sdk_autoscaling::Client,
    pub(crate) ec2: aws_sdk_ec2::Client,
    pub(crate) eks: aws_sdk_eks::Client,
    pub(crate) iam: aws_sdk_iam::Client,
    pub(crate) pricing: aws_sdk_pricing::Client,
    pub(crate) ssm: aws_sdk_ssm::Client,
    /// What every client is made from.
    pub(crate) config: SdkConfig,
    /// The function's own.
    pub(crate) credentials: Option<SharedCredentialsProvider>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) catalog: Arc<CatalogCache>,
    pub(crate) resolved: Arc<Resolved>,
    pub(crate) prices: Arc<PriceCache>,
    pub(crate) profiles: Arc<ProfileCache>,
    pub(crate) validations: Arc<ValidationCache>,
    pub(crate) budget: Option<Arc<dyn Budget>>,
    pub(crate) shelf: Option<Arc<dyn Shelf>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) region: String,
    pub(crate) registry_prefix: String,
    pub(crate) credentials_prefix: Option<String>,
}

#[derive(Clone, Default)]
pub struct Options {
    /// The role to assume for writes, with the session tag `cluster`; without one, writes use the function's credentials.
    pub cluster_role: Option<String>,
    /// Where clusters are registered in Parameter Store, such as `/whittle/clusters`.
    pub registry_prefix: String,
    /// Where credentials of clusters outside EKS are kept, such as `/whittle/credentials`: each cluster's under its own name. Without
    /// it any path that names the cluster is the cluster's own.
    pub credentials_prefix: Option<String>,
    /// What calls of EC2 are taken out of; without one they are not counted.
    pub budget: Option<Arc<dyn Budget>>,
    /// Where published prices are; without one, those shipped with Whittle are used.
    pub shelf: Option<Arc<dyn Shelf>>,
}

impl Account {
    pub fn new(config: &SdkConfig, options: Options, clock: Arc<dyn Clock>) -> Self {
        Self {
            autoscaling: aws_sdk_autoscaling::Client::new(config),
            ec2: aws_sdk_ec2::Client::new(&metered(config, options.budget.as_ref())),
            eks: aws_sdk_eks::Client::new(config),
            iam: aws_sdk_iam::Client::new(&impatient(config)),
            pricing: aws_sdk_pricing::Client::new(config),
            ssm: aws_sdk_ssm::Client::new(config),
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
            shelf: options.shelf,
            clock,
            region: config.region().map(ToString::to_string).unwrap_or_default(),
            registry_prefix: options.registry_prefix,
            credentials_prefix: options.credentials_prefix,
        }
    }

    /// EC2 for writes on behalf of this cluster.
    pub(crate) async fn ec2_of(&self, cluster: &ClusterName) -> aws_sdk_ec2::Client {
        self.sessions.ec2(cluster).await
    }

    /// Has a call of this kind ready in hand.
    pub(crate) async fn hold(&self, api: Api, action: &str) -> Result<(), CloudError> {
        let Some(budget) = &self.budget else {
            return Ok(());
        };
        let held = budget.hold(api).await;
        held.map_err(|Spent { until }| CloudError::Postponed {
            action: action.to_owned(),
            until,
        })
    }
}
