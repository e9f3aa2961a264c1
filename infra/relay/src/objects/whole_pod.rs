//! Pods decoded twice: the slim form of the relay, and the complete pod that functions use.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::meta::Meta;
use super::metric_data::{MetricData, PodData};
use super::pod::Pod;
use super::{Digest, WatchedObject};
use crate::kind::Kind;

#[derive(Clone, Debug)]
pub struct WholePod {
    slim: Pod,
    /// `None` for a pod that functions could not decode either; their lists skip it as well.
    whole: Option<Box<model::pod::Pod>>,
}

impl<'de> Deserialize<'de> for WholePod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Decoding twice is cheaper than building an intermediate value with unused fields, such as managed fields.
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let slim = serde_json::from_str(text).map_err(D::Error::custom)?;
        let whole = serde_json::from_str::<api::kubernetes::Pod>(text).ok();
        Ok(Self {
            slim,
            whole: whole.map(|pod| Box::new(pod.into())),
        })
    }
}

impl WatchedObject for WholePod {
    const KIND: Kind = Kind::Pod;

    fn meta(&self) -> &Meta {
        self.slim.meta()
    }

    fn digest(&self) -> Digest {
        self.slim.digest()
    }

    fn metric_data(&self) -> Option<MetricData> {
        let pod = self.whole.as_ref()?;
        let metric_data = PodData::new(pod, self.slim.conditions());
        Some(MetricData::Pod(metric_data))
    }

    fn into_whole_pod(self) -> Option<Box<model::pod::Pod>> {
        self.whole
    }
}
