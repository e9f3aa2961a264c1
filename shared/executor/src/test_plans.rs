//! Minimal plans for tests.

use model::{
    Action, PodKey,
    plan::{Expected, Launch, Nomination, Planned, PodRef, Target},
};

pub(crate) fn planned(action: Action) -> Planned {
    Planned {
        action,
        because: String::new(),
    }
}

pub(crate) fn pod(name: &str) -> PodRef {
    PodRef {
        key: PodKey::new("default", name),
        uid: name.into(),
    }
}

pub(crate) fn launch(node_pool: &str, name: &str, pods: &[&str]) -> Planned {
    planned(Action::Launch(Box::new(Launch {
        pods: pods.iter().map(|name| pod(name)).collect(),
        ..fakes::launch(node_pool, name)
    })))
}

pub(crate) fn nomination(name: &str, node: Expected) -> Nomination {
    Nomination {
        pod: pod(name),
        node,
    }
}

pub(crate) fn target(claim: &str) -> Target {
    Target {
        name: claim.into(),
        uid: claim.into(),
        resource_version: "1".into(),
    }
}
