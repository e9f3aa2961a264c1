//! Decisions of turns as the journal keeps them: lines of text with the objects that they concern, so that they can be
//! searched by object.

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

/// A searchable object, written `pod/NAMESPACE/NAME`, `node/NAME`, `nodeclaim/NAME` or `nodepool/NAME`.
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
pub struct InvalidSubject(String);

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
    type Err = InvalidSubject;

    fn from_str(text: &str) -> Result<Self, InvalidSubject> {
        let none = || InvalidSubject(text.to_owned());
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
    type Error = InvalidSubject;

    fn try_from(text: String) -> Result<Self, InvalidSubject> {
        text.parse()
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.to_string()
    }
}

/// A decision, act or finding in words, with the objects that it concerns.
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

/// Derefs to the text.
impl Deref for Line {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// The objects that an action concerns.
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
    fn subjects_parse_from_their_display_form() {
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
    fn invalid_subject_is_rejected_with_its_text() {
        for text in ["", "web-1", "pod/web-1", "node/", "service/shop/web"] {
            let error = text.parse::<Subject>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
