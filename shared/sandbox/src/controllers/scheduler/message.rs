use std::collections::BTreeMap;

/// Counted reasons why nodes were rejected, worded as in kube-scheduler's diagnosis.
#[derive(Debug, Default)]
pub(super) struct Diagnosis {
    nodes: usize,
    reasons: BTreeMap<String, usize>,
}

impl Diagnosis {
    pub(super) fn add(&mut self, reasons: Vec<String>) {
        self.nodes += 1;
        for reason in reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    pub(super) fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut reasons: Vec<String> = self
            .reasons
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        reasons.sort();
        format!(
            "0/{0} nodes are available: {1}. preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling.",
            self.nodes,
            reasons.join(", ")
        )
    }
}
