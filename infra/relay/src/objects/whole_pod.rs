//! Pods as they are read: what the relay needs itself, and what the functions plan with. They are read of text only.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::facts::{Facts, PodFacts};
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
        // Read twice, which is less work than to build up what nobody needs, such as managed fields.
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let slim = serde_json::from_str(text).map_err(D::Error::custom)?;
        let whole = serde_json::from_str::<api::kubernetes::Pod>(text).ok();
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

    fn facts(&self) -> Option<Facts> {
        let pod = self.whole.as_ref()?;
        let facts = PodFacts::new(pod, self.slim.conditions());
        Some(Facts::Pod(facts))
    }

    fn into_whole_pod(self) -> Option<Box<model::pod::Pod>> {
        self.whole
    }
}
