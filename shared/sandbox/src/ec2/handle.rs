use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{EC2NodeClass, names::tag};
use async_trait::async_trait;
use aws_rules::{
    ClusterFacts, ProviderSettings,
    instance_types::Unavailable,
    launch::Builder,
    node_class::{STATIC_HASH_VERSION, Verdict, drift_of_instance, static_hash},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use model::{
    ClusterName, Experience, FreeAddresses, InstanceId, InstanceType, Interruption,
    experience::ZonalShift,
    ids::LaunchToken,
    interruption::LifecycleHook,
    launch::{FleetRequest, FleetResponse, Instance, InstanceState},
    node_claim::NodeClaim,
    node_pool::NodePool,
};
use ports::{
    AccountHousekeeping, Catalog, Cloud, CloudError, LaunchBuilder, Launches, Needs,
    NodeClassResolver, Resolved, StaticHash, Terminations, terminate_each,
};
use serde_json::Value;

use super::{Account, Api};
use crate::{controllers::Machines, sandbox::Shared};

/// Simulated account of a running sandbox; implements the ports of turns.
#[derive(Clone, Debug)]
pub struct Ec2 {
    shared: Arc<Shared>,
    endpoint: String,
    authority_pem: String,
}

/// Service CIDR of the cluster; kube-dns has its tenth address.
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

    /// Reads or changes the account directly, not through a port.
    pub fn with<T>(&self, act: impl FnOnce(&mut Account, &mut Machines, Timestamp) -> T) -> T {
        self.shared
            .write(|world, now| act(&mut world.account, &mut world.machines, now))
    }

    /// Performs one API call: throttling first, then the action.
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
        self.shared.wake();
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

const TERMINATE: &str = "TerminateInstances";

/// Fails the whole call if one instance is unknown or belongs to another cluster.
fn may_act(
    account: &Account,
    cluster: &ClusterName,
    action: &str,
    ids: &[InstanceId],
) -> Result<(), CloudError> {
    for id in ids {
        let Some(record) = account.instances.get(id) else {
            return Err(CloudError::NotFound {
                what: format!("InvalidInstanceID.NotFound: The instance ID '{id}' does not exist"),
            });
        };
        if !is_of(&record.instance, cluster) {
            return Err(CloudError::Denied {
                action: action.to_owned(),
                message: "UnauthorizedOperation: You are not authorized to perform this operation."
                    .to_owned(),
            });
        }
    }
    Ok(())
}

#[async_trait]
impl Cloud for Ec2 {
    /// Always ready: launch templates are part of the request here, and throttling takes the place of the call budget.
    async fn ready(&self, _: &FleetRequest) -> Result<(), CloudError> {
        Ok(())
    }

    async fn launch(
        &self,
        request: &FleetRequest,
        not_after: Timestamp,
    ) -> Result<FleetResponse, CloudError> {
        const ACTION: &str = "CreateFleet";
        self.call(Api::CreateFleet, ACTION, |account, machines, now| {
            if now > not_after {
                return Err(CloudError::NotSent {
                    action: ACTION.to_owned(),
                    not_after,
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

    async fn instances_of_reservation(&self, id: &str) -> Result<Vec<Instance>, CloudError> {
        self.describe(|instance| instance.reservation.as_deref() == Some(id))
    }

    async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        self.describe(|instance| {
            is_of(instance, cluster) && instance.state != InstanceState::Terminated
        })
    }

    /// Hardware does not fail in the simulated account.
    async fn troubles(&self, _: Timestamp) -> Result<Vec<Interruption>, CloudError> {
        Ok(Vec::new())
    }

    async fn terminate(&self, cluster: &ClusterName, ids: &[InstanceId]) -> Terminations {
        let call = |ids: Vec<InstanceId>| {
            let done = self.call(
                Api::TerminateInstances,
                TERMINATE,
                |account, machines, now| {
                    may_act(account, cluster, TERMINATE, &ids)?;
                    // Zones without a protected instance are processed even if the call returns an error.
                    let (protected, refused) = account.protected_zones(&ids);
                    for id in &ids {
                        if !protected.contains(&account.zone(id)) {
                            account.terminate(id, machines, now);
                        }
                    }
                    refused.map_or(Ok(()), |message| {
                        Err(CloudError::Invalid {
                            action: TERMINATE.to_owned(),
                            code: "OperationNotPermitted".to_owned(),
                            message,
                        })
                    })
                },
            );
            std::future::ready(done)
        };
        terminate_each(ids, call).await
    }

    async fn reboot(&self, cluster: &ClusterName, id: &InstanceId) -> Result<(), CloudError> {
        const REBOOT: &str = "RebootInstances";
        self.call(Api::Mutating, REBOOT, |account, machines, now| {
            may_act(account, cluster, REBOOT, std::slice::from_ref(id))?;
            account.reboot(id, machines, now);
            Ok(())
        })
    }

    async fn knows_instance(&self, id: &InstanceId) -> Result<bool, CloudError> {
        self.call(Api::Describe, "DescribeInstances", |account, _, _| {
            Ok(account.instances.contains_key(id))
        })
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

    /// The simulated account has no Auto Scaling groups.
    async fn complete_hook(&self, _: &InstanceId, _: &LifecycleHook) -> Result<(), CloudError> {
        Ok(())
    }

    async fn extend_hook(&self, _: &InstanceId, _: &LifecycleHook) -> Result<(), CloudError> {
        Ok(())
    }
}

#[async_trait]
impl Catalog for Ec2 {
    async fn instance_types(
        &self,
        _: &ClusterName,
        node_class: &EC2NodeClass,
        _: &Value,
        experience: &Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        let mut types = self.with(|account, _, _| account.options.catalog.clone());
        let unavailable = Unavailable::new(experience);
        if unavailable != Unavailable::default() {
            let types = Arc::make_mut(&mut types);
            unavailable.mark_unavailable(types, node_class);
        }
        Ok(types)
    }

    /// The simulated account has no zonal shifts.
    async fn zonal_shifts(
        &self,
        _: &ClusterName,
        _: &Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        Ok(Vec::new())
    }
}

/// Account housekeeping of the simulated account: its prices do not change, and it keeps neither launch templates nor
/// instance profiles.
#[async_trait]
impl AccountHousekeeping for Ec2 {
    async fn renew_prices(&self, _: bool, _: Timestamp) -> Vec<String> {
        Vec::new()
    }

    async fn collect(
        &self,
        _: &ClusterName,
        _: &Needs<'_>,
        _: Timestamp,
    ) -> Result<BTreeSet<String>, CloudError> {
        Ok(BTreeSet::new())
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
    ) -> Result<Resolved, CloudError> {
        let facts = self.facts(cluster)?;
        let settings = settings(&Value::Null)?;
        let hash = static_hash(node_class, &facts.certificate_authority).ok();
        let draft = self.with(|account, _, _| account.resolve(node_class, &facts, &settings, now));
        Ok(Resolved {
            warnings: draft.warnings.clone(),
            // Launches never fail for lack of permission here.
            status: draft.judged(Verdict::Passed),
            hash: hash.map(|hash| StaticHash {
                hash,
                version: STATIC_HASH_VERSION,
            }),
        })
    }

    fn drift(
        &self,
        node_class: &EC2NodeClass,
        types: &[InstanceType],
        claim: &NodeClaim,
        instance: Option<&Instance>,
    ) -> Result<Option<String>, String> {
        drift_of_instance(node_class, types, claim, instance).map_err(|unknown| unknown.to_string())
    }

    /// Instance profiles of the simulated account are never deleted.
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

    async fn free_addresses(
        &self,
        subnets: &BTreeSet<String>,
    ) -> Result<FreeAddresses, CloudError> {
        self.call(Api::Describe, "DescribeSubnets", |account, _, _| {
            let own = account.options.subnets.iter();
            let asked = own.filter(|subnet| subnets.contains(&subnet.id));
            let counted = asked.map(|subnet| (subnet.id.clone(), subnet.free_addresses));
            Ok(FreeAddresses(counted.collect()))
        })
    }
}
