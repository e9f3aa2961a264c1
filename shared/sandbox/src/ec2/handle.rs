use std::{collections::BTreeMap, sync::Arc};

use api::{EC2NodeClass, karpenter::EC2NodeClassStatus, names::tag};
use async_trait::async_trait;
use aws_rules::{
    Claim, ClusterFacts, LaunchInput, LaunchRefusal, ProviderSettings, fleet_request,
    instance_types::Unavailable,
    launch::{FreeAddresses, call_refusal, reading},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, InstanceType,
    ids::LaunchToken,
    launch::{FleetAnswer, FleetRequest, Instance, InstanceState, LaunchReading},
    ledger::UnavailableOffering,
    node_pool::NodePool,
    plan::Launch,
};
use ports::{Catalog, Cloud, CloudError, LaunchBuilder, Launches, NodeClassResolver};
use serde_json::Value;

use super::{Account, Api};
use crate::{controllers::Machines, sandbox::Shared};

/// The account of a running sandbox, as turns see it.
#[derive(Clone, Debug)]
pub struct Ec2 {
    shared: Arc<Shared>,
    endpoint: String,
    authority_pem: String,
}

/// The addresses of the cluster's services; kube-dns has the tenth.
const SERVICE_CIDR: &str = "10.100.0.0/16";
const DNS_IP: &str = "10.100.0.10";

impl Ec2 {
    pub(crate) fn new(shared: Arc<Shared>, endpoint: String, authority_pem: String) -> Self {
        Self {
            shared,
            endpoint,
            authority_pem,
        }
    }

    /// Looks at or changes the account directly, without passing a port.
    pub fn with<T>(&self, act: impl FnOnce(&mut Account, &mut Machines, Timestamp) -> T) -> T {
        self.shared
            .write(|world, now| act(&mut world.account, &mut world.machines, now))
    }

    /// One call of the API: throttled, then done.
    fn call<T>(
        &self,
        api: Api,
        action: &str,
        act: impl FnOnce(&mut Account, &mut Machines, Timestamp) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let result = self.with(|account, machines, now| {
            if account.options.throttling && !account.buckets.take(api, now) {
                return Err(CloudError::Throttled {
                    action: action.to_owned(),
                    code: "RequestLimitExceeded".to_owned(),
                });
            }
            act(account, machines, now)
        });
        self.shared.nudge();
        result
    }

    fn describe(&self, wanted: impl Fn(&Instance) -> bool) -> Result<Vec<Instance>, CloudError> {
        self.call(Api::Describe, "DescribeInstances", |account, _, now| {
            let described = account.described(now);
            Ok(described
                .filter(|instance| wanted(instance))
                .cloned()
                .collect())
        })
    }

    fn facts(&self, cluster: &ClusterName) -> Result<ClusterFacts, CloudError> {
        let (region, version) = self.with(|account, _, _| {
            let options = &account.options;
            (options.region.clone(), options.kubernetes_version.clone())
        });
        Ok(ClusterFacts {
            name: cluster.clone(),
            region,
            endpoint: self.endpoint.clone(),
            certificate_authority: STANDARD.encode(&self.authority_pem),
            service_cidr: Some(SERVICE_CIDR.to_owned()),
            dns_ip: Some(DNS_IP.to_owned()),
            version: version
                .parse()
                .map_err(|error| invalid("describing the cluster", &format!("{error}")))?,
        })
    }
}

fn invalid(action: &str, message: &str) -> CloudError {
    CloudError::Invalid {
        action: action.to_owned(),
        code: "InvalidConfiguration".to_owned(),
        message: message.to_owned(),
    }
}

fn settings(raw: &Value) -> Result<ProviderSettings, CloudError> {
    ProviderSettings::read(raw)
        .map_err(|error| invalid("reading the cluster's settings", &error.to_string()))
}

fn is_of(instance: &Instance, cluster: &ClusterName) -> bool {
    instance.tags.get(tag::EKS_CLUSTER).map(String::as_str) == Some(cluster.as_str())
}

#[async_trait]
impl Cloud for Ec2 {
    async fn launch(
        &self,
        request: &FleetRequest,
        not_after: Timestamp,
    ) -> Result<FleetAnswer, CloudError> {
        const ACTION: &str = "CreateFleet";
        self.call(Api::CreateFleet, ACTION, |account, machines, now| {
            if now > not_after {
                return Err(CloudError::Unknown {
                    action: ACTION.to_owned(),
                    message: format!("it is past {not_after}, so no request was sent"),
                });
            }
            account
                .create_fleet(request, machines, now)
                .map_err(|refusal| CloudError::Invalid {
                    action: ACTION.to_owned(),
                    code: refusal.code.to_owned(),
                    message: refusal.message,
                })
        })
    }

    async fn instances_of_launch(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Vec<Instance>, CloudError> {
        self.describe(|instance| {
            is_of(instance, cluster)
                && instance.tags.get(tag::LAUNCH).map(String::as_str) == Some(token.as_str())
        })
    }

    async fn describe_instances(&self, ids: &[InstanceId]) -> Result<Vec<Instance>, CloudError> {
        self.describe(|instance| ids.contains(&instance.id))
    }

    async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        self.describe(|instance| {
            is_of(instance, cluster) && instance.state != InstanceState::Terminated
        })
    }

    async fn terminate(&self, _: &ClusterName, ids: &[InstanceId]) -> Result<(), CloudError> {
        let act = |account: &mut Account, machines: &mut Machines, now| {
            for id in ids {
                account.terminate(id, machines, now);
            }
            Ok(())
        };
        self.call(Api::TerminateInstances, "TerminateInstances", act)
    }

    async fn tag(
        &self,
        _: &ClusterName,
        id: &InstanceId,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), CloudError> {
        self.call(Api::CreateTags, "CreateTags", |account, _, _| {
            let record = account.instances.get_mut(id);
            let record = record.ok_or_else(|| CloudError::NotFound {
                what: format!("instance {id}"),
            })?;
            record.instance.tags.extend(tags.clone());
            Ok(())
        })
    }
}

#[async_trait]
impl Catalog for Ec2 {
    async fn instance_types(
        &self,
        _: &ClusterName,
        node_class: &EC2NodeClass,
        _: &Value,
        unavailable: &[UnavailableOffering],
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        let mut types = self.with(|account, _, _| account.options.catalog.clone());
        if !unavailable.is_empty() {
            let types = Arc::make_mut(&mut types);
            Unavailable::new(unavailable).mark(types, node_class);
        }
        Ok(types)
    }
}

#[async_trait]
impl NodeClassResolver for Ec2 {
    async fn resolve(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        _: &[NodePool],
        now: Timestamp,
    ) -> Result<EC2NodeClassStatus, CloudError> {
        let facts = self.facts(cluster)?;
        let settings = settings(&Value::Null)?;
        Ok(self.with(|account, _, _| account.resolve(node_class, &facts, &settings, now)))
    }

    /// Profiles of the simulated account cost nothing and stay.
    async fn release(&self, _: &ClusterName, _: &EC2NodeClass) -> Result<(), CloudError> {
        Ok(())
    }
}

#[async_trait]
impl Launches for Ec2 {
    async fn prepare(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<Box<dyn LaunchBuilder>, CloudError> {
        Ok(Box::new(Builder {
            cluster: self.facts(cluster)?,
            settings: settings(crate::json::at(entry, &["settings"]))?,
        }))
    }
}

struct Builder {
    cluster: ClusterFacts,
    settings: ProviderSettings,
}

impl LaunchBuilder for Builder {
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
    ) -> Result<FleetRequest, LaunchRefusal> {
        let input = LaunchInput {
            cluster: &self.cluster,
            settings: &self.settings,
            node_class,
            instance_types,
            free_addresses: &FreeAddresses::new(),
        };
        fleet_request(&input, Claim::from(launch))
    }

    fn read(
        &self,
        request: &FleetRequest,
        answer: &FleetAnswer,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> LaunchReading {
        reading(request, answer, |zone| {
            zone_ids.get(zone).copied().unwrap_or(zone).to_owned()
        })
    }

    fn refused(&self, error: &CloudError) -> LaunchRefusal {
        call_refusal(&error.to_string())
    }
}
