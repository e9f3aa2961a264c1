//! The algebra of requirements: sets of label values, their intersection and their compatibility
//! (docs/spec/scheduling.md#requirements).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::{
    labels::normalized,
    selector::{NodeSelectorRequirement, Operator},
};

/// The values that one label may have: a finite set, or the complement of one, within integer bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    pub key: String,
    /// If `true`, `values` are the excluded ones.
    pub complement: bool,
    pub values: BTreeSet<String>,
    pub gte: Option<i64>,
    pub lte: Option<i64>,
    pub min_values: Option<u32>,
}

/// Label key → requirement. A key without an entry is unconstrained.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Requirements(pub BTreeMap<String, Requirement>);

impl Requirement {
    pub fn new(key: &str, operator: Operator, values: impl IntoIterator<Item = String>) -> Self {
        let values: BTreeSet<String> = values.into_iter().collect();
        let bound = values.first().and_then(|value| value.parse::<i64>().ok());
        let open = Self {
            key: normalized(key).to_owned(),
            complement: true,
            values: BTreeSet::new(),
            gte: None,
            lte: None,
            min_values: None,
        };
        let none = Self {
            complement: false,
            ..open.clone()
        };
        match (operator, bound) {
            (Operator::In, _) => Self { values, ..none },
            (Operator::NotIn, _) => Self { values, ..open },
            (Operator::Exists, _) => open,
            (Operator::Gt, Some(n)) => n.checked_add(1).map_or(none, |n| Self {
                gte: Some(n),
                ..open
            }),
            (Operator::Lt, Some(n)) => n.checked_sub(1).map_or(none, |n| Self {
                lte: Some(n),
                ..open
            }),
            (Operator::Gte, Some(n)) => Self {
                gte: Some(n),
                ..open
            },
            (Operator::Lte, Some(n)) => Self {
                lte: Some(n),
                ..open
            },
            // A bound that is no integer matches nothing; validation reports it to the user.
            (
                Operator::DoesNotExist
                | Operator::Gt
                | Operator::Lt
                | Operator::Gte
                | Operator::Lte,
                _,
            ) => none,
        }
    }

    /// Whether `value` is allowed.
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
        }
    }

    /// The values that both allow. Commutative.
    pub fn intersection(&self, other: &Self) -> Self {
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min_values = self.min_values.max(other.min_values);
        let mut result = Self {
            key: self.key.clone(),
            complement: false,
            values: BTreeSet::new(),
            gte,
            lte,
            min_values,
        };
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return Self {
                gte: None,
                lte: None,
                ..result
            };
        }
        result.complement = self.complement && other.complement;
        let values: BTreeSet<String> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        result.values = values
            .into_iter()
            .filter(|value| result.within_bounds(value))
            .collect();
        if !result.complement {
            (result.gte, result.lte) = (None, None);
        }
        result
    }

    /// Whether some value satisfies both. Two complements always intersect while their bounds leave room
    /// (docs/spec/scheduling.md#intersection).
    pub fn intersects(&self, other: &Self) -> bool {
        let both = self.intersection(other);
        both.complement || !both.values.is_empty()
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|n| {
            self.gte.is_none_or(|gte| n >= gte) && self.lte.is_none_or(|lte| n <= lte)
        })
    }

    /// The node selector entries that represent this requirement in an API object
    /// (docs/spec/scheduling.md#serialization).
    pub fn to_selector(&self) -> Vec<NodeSelectorRequirement> {
        let entry = |operator, values: Vec<String>| NodeSelectorRequirement {
            key: self.key.clone(),
            operator,
            values,
            min_values: self.min_values,
        };
        let bounds = [(Operator::Gte, self.gte), (Operator::Lte, self.lte)];
        let bounded: Vec<_> = bounds
            .into_iter()
            .filter_map(|(operator, bound)| Some(entry(operator, vec![bound?.to_string()])))
            .collect();
        if bounded.is_empty() {
            vec![entry(
                self.operator(),
                self.values.iter().cloned().collect(),
            )]
        } else {
            bounded
        }
    }
}

/// Upper bound on listed values; the others are counted.
const VALUES_SHOWN: usize = 5;

impl Requirement {
    /// Operator and values without the key: `In [a b]`.
    pub fn values_text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let bounded = self.gte.is_some() || self.lte.is_some();
        let operator = self.operator();
        if !(bounded && operator == Operator::Exists) {
            parts.push(format!("{operator:?}"));
        }
        if !self.values.is_empty() {
            let mut shown: Vec<&str> = self.values.iter().map(String::as_str).collect();
            // A single further value takes no more space than its count.
            let more = match self.values.len().saturating_sub(VALUES_SHOWN) {
                0 | 1 => String::new(),
                more => {
                    shown.truncate(VALUES_SHOWN);
                    format!(" and {more} others")
                }
            };
            parts.push(format!("[{}{more}]", shown.join(" ")));
        }
        parts.extend(self.gte.map(|bound| format!(">={bound}")));
        parts.extend(self.lte.map(|bound| format!("<={bound}")));
        parts.join(" ")
    }
}

/// Formats `zone In [a b]`, the notation of Karpenter's messages.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.values_text())
    }
}

impl From<&NodeSelectorRequirement> for Requirement {
    fn from(entry: &NodeSelectorRequirement) -> Self {
        let mut requirement = Self::new(&entry.key, entry.operator, entry.values.iter().cloned());
        requirement.min_values = entry.min_values;
        requirement
    }
}

impl Requirements {
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut requirements = Self::default();
        for (key, value) in labels {
            requirements.add(Requirement::new(key, Operator::In, [value.clone()]));
        }
        requirements
    }

    pub fn from_selector<'a>(
        entries: impl IntoIterator<Item = &'a NodeSelectorRequirement>,
    ) -> Self {
        let mut requirements = Self::default();
        for entry in entries {
            requirements.add(entry.into());
        }
        requirements
    }

    /// Intersects the entry for this key with `requirement`.
    pub fn add(&mut self, requirement: Requirement) {
        let narrowed = match self.0.get(&requirement.key) {
            Some(existing) => existing.intersection(&requirement),
            None => requirement,
        };
        self.0.insert(narrowed.key.clone(), narrowed);
    }

    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    pub fn to_selector(&self) -> Vec<NodeSelectorRequirement> {
        self.0.values().flat_map(Requirement::to_selector).collect()
    }
}
