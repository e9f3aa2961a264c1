//! Partition and sort keys of all rows (docs/design.md#ledger).

use model::{
    ClusterName, InstanceId, Lane, NodeClaimName,
    budget::Api,
    ids::{LaunchToken, PlanId, TurnId},
    journal::Subject,
    ledger::OfferingKey,
};

use crate::table::Key;

impl Key {
    fn cluster(cluster: &ClusterName, sk: String) -> Self {
        Self {
            pk: partition(cluster),
            sk,
        }
    }

    pub(crate) fn meta(cluster: &ClusterName) -> Self {
        Self::cluster(cluster, "META".to_owned())
    }

    pub(crate) fn lane(cluster: &ClusterName, lane: Lane) -> Self {
        Self::cluster(cluster, format!("{LANE}{lane}"))
    }

    pub(crate) fn plan(cluster: &ClusterName, generation: u64) -> Self {
        Self::cluster(cluster, plan_sort(generation))
    }

    pub(crate) fn plan_body(cluster: &ClusterName, id: &PlanId, chunk: usize) -> Self {
        Self::cluster(cluster, format!("{}{chunk:03}", plan_body_prefix(id)))
    }

    pub(crate) fn intent(cluster: &ClusterName, claim: &NodeClaimName) -> Self {
        Self::cluster(cluster, format!("{INTENT}{claim}"))
    }

    pub(crate) fn launched(cluster: &ClusterName, claim: &NodeClaimName) -> Self {
        Self::cluster(cluster, format!("{LAUNCHED}{claim}"))
    }

    pub(crate) fn call(cluster: &ClusterName, token: &LaunchToken) -> Self {
        Self::cluster(cluster, format!("{CALL}{token}"))
    }

    pub(crate) fn closed_call(cluster: &ClusterName, token: &LaunchToken) -> Self {
        Self::cluster(cluster, format!("{CLOSED}{token}"))
    }

    pub(crate) fn claim(cluster: &ClusterName, claim: &NodeClaimName) -> Self {
        Self::cluster(cluster, format!("CLAIM#{claim}"))
    }

    pub(crate) fn command(cluster: &ClusterName, id: &str) -> Self {
        Self::cluster(cluster, format!("{COMMAND}{id}"))
    }

    pub(crate) fn notice(cluster: &ClusterName, instance: &InstanceId, kind: &str) -> Self {
        Self::cluster(cluster, format!("{NOTICE}{instance}#{kind}"))
    }

    /// Row of the housekeeper's notes.
    pub(crate) fn sweep(cluster: &ClusterName) -> Self {
        Self::cluster(cluster, "SWEEP".to_owned())
    }

    pub(crate) fn shifts(cluster: &ClusterName) -> Self {
        Self::cluster(cluster, "SHIFT".to_owned())
    }

    pub(crate) fn owner(instance: &InstanceId) -> Self {
        Self {
            pk: format!("INSTANCE#{instance}"),
            sk: "OWNER".to_owned(),
        }
    }

    pub(crate) fn relay(cluster: &ClusterName) -> Self {
        Self {
            pk: format!("RELAY#{cluster}"),
            sk: "BEAT".to_owned(),
        }
    }

    pub(crate) fn registered(cluster: &ClusterName) -> Self {
        Self {
            pk: CLUSTERS.to_owned(),
            sk: cluster.to_string(),
        }
    }
}

pub(crate) const CALL: &str = "CALL#";
pub(crate) const COMMAND: &str = "COMMAND#";
pub(crate) const INTENT: &str = "INTENT#";
/// Launched intents and closed calls: their prefixes differ from those that every turn reads.
pub(crate) const LAUNCHED: &str = "LAUNCHED#";
pub(crate) const CLOSED: &str = "CLOSED#";
pub(crate) const LANE: &str = "LANE#";
pub(crate) const NOTICE: &str = "NOTICE#";
/// Partition with one row per cluster, so that the sweep finds all clusters without a scan.
pub(crate) const CLUSTERS: &str = "CLUSTERS";

pub(crate) fn partition(cluster: &ClusterName) -> String {
    format!("CLUSTER#{cluster}")
}

pub(crate) fn journal(cluster: &ClusterName) -> String {
    format!("JOURNAL#{cluster}")
}

/// Partition of the index rows of records about one object.
pub(crate) fn journal_of(cluster: &ClusterName, subject: &Subject) -> String {
    format!("JOURNAL#{cluster}#{subject}")
}

/// Partition of the index rows of records about too many objects for index rows.
pub(crate) fn journal_of_many(cluster: &ClusterName) -> String {
    format!("JOURNAL#{cluster}#many")
}

pub(crate) fn journal_of_turn(cluster: &ClusterName, turn: &TurnId) -> String {
    format!("JOURNAL#{cluster}#turn/{turn}")
}

/// Sort key of a plan, zero-padded so that keys sort by generation.
pub(crate) fn plan_sort(generation: u64) -> String {
    format!("PLAN#{generation:020}")
}

pub(crate) fn plan_body_prefix(id: &PlanId) -> String {
    format!("PLANBODY#{id}#")
}

/// Keys of the rows that all clusters of an account and Region share.
pub(crate) struct Account {
    prefix: String,
}

impl Account {
    pub(crate) fn new(account: &str, region: &str) -> Self {
        Self {
            prefix: format!("ACCT#{account}#{region}"),
        }
    }

    fn partition(&self, kind: &str) -> String {
        format!("{}#{kind}", self.prefix)
    }

    pub(crate) fn offerings(&self) -> String {
        self.partition("ICE")
    }

    pub(crate) fn subnets(&self) -> String {
        self.partition("SUBNET")
    }

    pub(crate) fn evidence(&self) -> String {
        self.partition("EVIDENCE")
    }

    pub(crate) fn evidence_of(&self, cluster: &ClusterName) -> Key {
        Key {
            pk: self.evidence(),
            sk: cluster.to_string(),
        }
    }

    pub(crate) fn pauses(&self) -> Key {
        Key {
            pk: self.partition("PAUSE"),
            sk: "PAUSE".to_owned(),
        }
    }

    pub(crate) fn learned(&self) -> String {
        self.partition("LEARNED")
    }

    /// Row of an object that is published for all functions.
    pub(crate) fn published(&self, name: &str) -> Key {
        Key {
            pk: self.partition("SHELF"),
            sk: name.to_owned(),
        }
    }

    pub(crate) fn offering(&self, offering: &OfferingKey) -> Key {
        Key {
            pk: self.offerings(),
            sk: offering_sort(offering),
        }
    }

    pub(crate) fn subnet(&self, subnet: &str) -> Key {
        Key {
            pk: self.subnets(),
            sk: subnet.to_owned(),
        }
    }

    pub(crate) fn measured(&self, instance_type: &str, image: &str) -> Key {
        Key {
            pk: self.learned(),
            sk: format!("{instance_type}#{image}"),
        }
    }

    /// Row of an API's token bucket. Each API has its own partition, because turns of all clusters write here.
    pub(crate) fn bucket(&self, api: Api) -> Key {
        let name = api_name(api);
        Key {
            pk: self.partition(&format!("BUCKET#{name}")),
            sk: "BUCKET".to_owned(),
        }
    }
}

pub(crate) fn api_name(api: Api) -> &'static str {
    match api {
        Api::Describe => "Describe",
        Api::CreateFleet => "CreateFleet",
        Api::TerminateInstances => "TerminateInstances",
        Api::CreateTags => "CreateTags",
        Api::Mutating => "Mutating",
    }
}

fn offering_sort(offering: &OfferingKey) -> String {
    let base = format!(
        "{}#{}#{}",
        offering.capacity_type, offering.instance_type, offering.zone_id
    );
    match &offering.scope {
        None => base,
        Some(scope) => format!("{base}#{scope}"),
    }
}
