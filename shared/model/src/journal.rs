//! What turns decided, as it is kept: lines of text, each with the objects it speaks of, so that one can ask about them later.

use std::{
    fmt::{self, Display, Formatter},
    ops::Deref,
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    ids::{NodeClaimName, NodeName, NodePoolName, PodKey},
    plan::{Action, Expected, Planned},
};

/// An object that a decision can be asked about, written `pod/NAMESPACE/NAME`, `node/NAME`, `nodeclaim/NAME` or
/// `nodepool/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    Pod(PodKey),
    Node(NodeName),
    NodeClaim(NodeClaimName),
    NodePool(NodePoolName),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} names no object: expected pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME"
)]
pub struct NoSubject(String);

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod/{key}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::NodeClaim(name) => write!(f, "nodeclaim/{name}"),
            Self::NodePool(name) => write!(f, "nodepool/{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = NoSubject;

    fn from_str(text: &str) -> Result<Self, NoSubject> {
        let none = || NoSubject(text.to_owned());
        let (kind, name) = text.split_once('/').ok_or_else(none)?;
        if name.is_empty() {
            return Err(none());
        }
        match kind {
            "pod" => {
                let (namespace, name) = name.split_once('/').ok_or_else(none)?;
                Ok(Self::Pod(PodKey::new(namespace, name)))
            }
            "node" => Ok(Self::Node(name.into())),
            "nodeclaim" => Ok(Self::NodeClaim(name.into())),
            "nodepool" => Ok(Self::NodePool(name.into())),
            _ => Err(none()),
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = NoSubject;

    fn try_from(text: String) -> Result<Self, NoSubject> {
        text.parse()
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.to_string()
    }
}

/// Something that was decided, done or found out, in words, and whom it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<Subject>,
}

impl Line {
    pub fn new(text: impl Into<String>, about: impl IntoIterator<Item = Subject>) -> Self {
        Self {
            text: text.into(),
            about: about.into_iter().collect(),
        }
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new(text, [])
    }
}

impl From<&Planned> for Line {
    fn from(planned: &Planned) -> Self {
        let text = format!("{}: {}", planned.action, planned.because);
        Self::new(text, subjects(&planned.action))
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A line is read as its text.
impl Deref for Line {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Whom an action concerns.
pub fn subjects(action: &Action) -> Vec<Subject> {
    match action {
        Action::Launch(launch) => {
            let node = [
                Subject::NodeClaim(launch.name.clone()),
                Subject::NodePool(launch.node_pool.clone()),
            ];
            let pods = launch.pods.iter().map(|pod| Subject::Pod(pod.key.clone()));
            node.into_iter().chain(pods).collect()
        }
        Action::DeleteNodeClaim(target) | Action::Reboot(target) => {
            vec![Subject::NodeClaim(target.name.clone())]
        }
        Action::UpdateNode(update) => {
            let owner = update.owner.iter();
            let owner = owner.map(|(claim, _)| Subject::NodeClaim(claim.clone()));
            [Subject::Node(update.name.clone())]
                .into_iter()
                .chain(owner)
                .collect()
        }
        Action::UpdateNodeClaim(update) => {
            let node = update.node_name.iter().cloned().map(Subject::Node);
            [Subject::NodeClaim(update.name.clone())]
                .into_iter()
                .chain(node)
                .collect()
        }
        Action::Evict { pod, .. } | Action::DeletePod { pod, .. } => {
            vec![Subject::Pod(pod.clone())]
        }
        Action::Terminate { claim, .. } => vec![Subject::NodeClaim(claim.clone())],
    }
}

impl From<&Expected> for Subject {
    fn from(expected: &Expected) -> Self {
        match expected {
            Expected::Node(name) => Self::Node(name.clone()),
            Expected::NodeClaim(name) => Self::NodeClaim(name.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_read_as_they_are_written() {
        for text in [
            "pod/shop/web-1",
            "node/ip-10-0-0-1.ec2.internal",
            "nodeclaim/default-x7k2p",
            "nodepool/default",
        ] {
            let subject: Subject = text.parse().unwrap();
            assert_eq!(subject.to_string(), text);
            let json = serde_json::to_string(&subject).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Subject>(&json).unwrap(), subject);
        }
    }

    #[test]
    fn what_names_nothing_is_no_subject() {
        for text in ["", "web-1", "pod/web-1", "node/", "service/shop/web"] {
            let error = text.parse::<Subject>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
