//! Taints and tolerations, matched as Kubernetes does.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: TaintEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// Empty with `Exists` tolerates every key.
    pub key: String,
    pub operator: TolerationOperator,
    pub value: String,
    /// `None` tolerates every effect.
    pub effect: Option<TaintEffect>,
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    Equal,
    Exists,
    Gt,
    Lt,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let key_matches = self.key == taint.key
            || self.key.is_empty() && self.operator == TolerationOperator::Exists;
        let effect_matches = self.effect.is_none_or(|effect| effect == taint.effect);
        let integers = || {
            Some((
                taint.value.parse::<i64>().ok()?,
                self.value.parse::<i64>().ok()?,
            ))
        };
        let value_matches = match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Gt => integers().is_some_and(|(taint, bound)| taint > bound),
            TolerationOperator::Lt => integers().is_some_and(|(taint, bound)| taint < bound),
        };
        key_matches && effect_matches && value_matches
    }
}

/// Formats `key=value:Effect`, as kubectl does.
impl Display for Taint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

impl Display for TaintEffect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        })
    }
}
