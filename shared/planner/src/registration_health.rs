//! Registration health of a NodePool: the latest registration outcomes, stored in an annotation of the NodePool
//! (docs/spec/lifecycle.md#registration-health).

use std::collections::VecDeque;

use model::{Uid, node::ConditionStatus};

/// Latest registration outcomes, oldest first; `true` is a success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrationHealth {
    outcomes: VecDeque<bool>,
}

/// Number of outcomes kept, as in Karpenter.
const OUTCOMES_MAX: usize = 4;
/// Number of failures among the stored outcomes that makes a NodePool unhealthy.
const UNHEALTHY_FAILURES: usize = 2;

impl RegistrationHealth {
    /// Parses a NodePool's annotation. Outcomes of an earlier NodePool of the same name are ignored.
    pub fn read(annotation: Option<&str>, node_pool: &Uid) -> Self {
        let written = annotation.and_then(|text| text.split_once(' '));
        let own = written.filter(|(uid, _)| *uid == node_pool.as_str());
        let letters = own.map_or("", |(_, letters)| letters);
        let outcomes = letters.chars().filter_map(|letter| match letter {
            'J' => Some(true),
            'F' => Some(false),
            _ => None,
        });
        Self {
            outcomes: outcomes.take(OUTCOMES_MAX).collect(),
        }
    }

    /// Formats the annotation: the NodePool's uid, then `J` or `F` for each outcome, joined or failed.
    pub fn write(&self, node_pool: &Uid) -> String {
        let letter = |joined: &bool| if *joined { 'J' } else { 'F' };
        let letters: String = self.outcomes.iter().map(letter).collect();
        format!("{node_pool} {letters}")
    }

    /// Derives outcomes from another controller's condition, if none is stored.
    pub fn or_as_shown(mut self, condition: ConditionStatus) -> Self {
        if self.outcomes.is_empty() {
            self.outcomes = match condition {
                ConditionStatus::True => VecDeque::from([true]),
                ConditionStatus::False => VecDeque::from([false; UNHEALTHY_FAILURES]),
                ConditionStatus::Unknown => VecDeque::new(),
            };
        }
        self
    }

    pub fn add(&mut self, joined: bool) {
        self.outcomes.push_back(joined);
        while self.outcomes.len() > OUTCOMES_MAX {
            self.outcomes.pop_front();
        }
    }

    /// Status of the condition; Unknown without outcomes.
    pub fn status(&self) -> ConditionStatus {
        let failures = self.outcomes.iter().filter(|joined| !**joined).count();
        if self.outcomes.is_empty() {
            ConditionStatus::Unknown
        } else if failures >= UNHEALTHY_FAILURES {
            ConditionStatus::False
        } else {
            ConditionStatus::True
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: &str) -> ConditionStatus {
        let uid = Uid::from("u");
        let mut health = RegistrationHealth::default();
        for letter in outcomes.chars() {
            health.add(letter == 'J');
            let text = health.write(&uid);
            assert_eq!(
                RegistrationHealth::read(Some(&text), &uid),
                health,
                "{text}"
            );
        }
        health.status()
    }

    #[test]
    fn two_failures_among_the_last_four_are_unhealthy() {
        use ConditionStatus::{False, True, Unknown};
        for (outcomes, status) in [
            ("", Unknown),
            ("J", True),
            ("F", True),
            ("FF", False),
            ("FFJ", False),
            ("FFJJ", False),
            ("FFJJJ", True),
            ("JJJF", True),
            ("JFJF", False),
        ] {
            assert_eq!(after(outcomes), status, "{outcomes}");
        }
    }

    #[test]
    fn recreated_node_pool_has_no_outcomes() {
        let mut health = RegistrationHealth::default();
        health.add(false);
        let text = health.write(&"old".into());
        let read = RegistrationHealth::read(Some(&text), &"new".into());
        assert_eq!(read, RegistrationHealth::default());
    }

    #[test]
    fn condition_of_another_controller_counts_as_outcomes() {
        let seeded = |status| RegistrationHealth::default().or_as_shown(status).status();
        for status in [
            ConditionStatus::True,
            ConditionStatus::False,
            ConditionStatus::Unknown,
        ] {
            assert_eq!(seeded(status), status);
        }
    }
}
