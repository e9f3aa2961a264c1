use jiff::Timestamp;
use model::{Action, Plan, plan::Planned};

/// A plan, and when there will be something to decide although nothing happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub plan: Plan,
    pub due: Option<Timestamp>,
}

impl Decision {
    pub(crate) fn act(&mut self, action: Action, because: impl Into<String>) {
        self.plan.actions.push(Planned {
            action,
            because: because.into(),
        });
    }

    pub(crate) fn look_again(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
