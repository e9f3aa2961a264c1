//! Sessions of a cluster: credentials that can write only resources with this cluster's tag.

use std::{collections::BTreeMap, sync::Arc};

use aws_config::{SdkConfig, sts::AssumeRoleProvider};
use aws_credential_types::provider::SharedCredentialsProvider;
use model::ClusterName;
use ports::Budget;
use tokio::sync::Mutex;

use crate::{meter::metered, sdk::with_short_timeouts};

/// STS' limit for session names.
const SESSION_NAME_MAX: usize = 64;

pub(crate) struct Sessions {
    config: SdkConfig,
    role: Option<String>,
    budget: Option<Arc<dyn Budget>>,
    clients: Mutex<BTreeMap<ClusterName, Clients>>,
}

#[derive(Clone)]
struct Clients {
    ec2: aws_sdk_ec2::Client,
    iam: aws_sdk_iam::Client,
}

impl Sessions {
    pub(crate) fn new(
        config: SdkConfig,
        role: Option<String>,
        budget: Option<Arc<dyn Budget>>,
    ) -> Self {
        Self {
            config,
            role,
            budget,
            clients: Mutex::default(),
        }
    }

    pub(crate) async fn ec2(&self, cluster: &ClusterName) -> aws_sdk_ec2::Client {
        self.clients(cluster).await.ec2
    }

    pub(crate) async fn iam(&self, cluster: &ClusterName) -> aws_sdk_iam::Client {
        self.clients(cluster).await.iam
    }

    /// The clients of a cluster. They are cached, because each client keeps its credentials until they expire.
    async fn clients(&self, cluster: &ClusterName) -> Clients {
        let mut clients = self.clients.lock().await;
        if let Some(known) = clients.get(cluster) {
            return known.clone();
        }
        let config = self.config_of(cluster).await;
        let made = Clients {
            ec2: aws_sdk_ec2::Client::new(&metered(&config, self.budget.as_ref())),
            iam: aws_sdk_iam::Client::new(&with_short_timeouts(&config)),
        };
        clients.insert(cluster.clone(), made.clone());
        made
    }

    async fn config_of(&self, cluster: &ClusterName) -> SdkConfig {
        let (Some(role), Some(own)) = (&self.role, self.config.credentials_provider()) else {
            return self.config.clone();
        };
        let mut name = format!("whittle-{cluster}");
        name.truncate(SESSION_NAME_MAX);
        let provider = AssumeRoleProvider::builder(role)
            .session_name(name)
            .tags([("cluster", cluster.as_str())])
            .configure(&self.config)
            .build_from_provider(own)
            .await;
        self.config
            .to_builder()
            .credentials_provider(SharedCredentialsProvider::new(provider))
            .build()
    }
}
