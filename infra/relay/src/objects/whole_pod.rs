//! Pods as they are read where the relay publishes them: what it needs itself, and what the functions plan with.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::meta::Meta;
use super::pod::Pod;
use super::{Digest, Watched};
use crate::kind::Kind;

#[derive(Clone, Debug)]
pub struct WholePod {
    slim: Pod,
    /// `None` for a pod that functions could not read either; they leave it out of their lists, too.
    whole: Option<Box<model::pod::Pod>>,
}

impl<'de> Deserialize<'de> for WholePod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not as text: an event may tell of its object before it tells what became of it.
        let object = Value::deserialize(deserializer)?;
        let slim = Pod::deserialize(&object).map_err(D::Error::custom)?;
        let whole = api::kubernetes::Pod::deserialize(&object).ok();
        Ok(Self {
            slim,
            whole: whole.map(|pod| Box::new(pod.into())),
        })
    }
}

impl Watched for WholePod {
    const KIND: Kind = Kind::Pod;

    fn meta(&self) -> &Meta {
        self.slim.meta()
    }

    fn digest(&self) -> Digest {
        self.slim.digest()
    }

    fn whole_pod(&self) -> Option<Box<model::pod::Pod>> {
        self.whole.clone()
    }
}
