//! The chart's options as settings `nodeTerminationHandler`, one after the other.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Conversion,
    options::{ALWAYS_ON, FIXED, NOT_NEEDED, NOT_NEEDED_PREFIXES, SUPPORTED, UNSUPPORTED, known},
    values::{given, switch, whole},
    webhook,
};

/// Upper bound on a pod's grace period in seconds: a day.
const GRACE_PERIOD_MAX: i64 = 86_400;

pub(super) struct Options<'a> {
    pub(super) values: &'a Map<String, Value>,
    pub(super) webhook_parameter: Option<&'a str>,
    pub(super) conversion: Conversion,
}

impl Options<'_> {
    pub(super) fn convert(mut self) -> Conversion {
        self.handler();
        self.heartbeat();
        webhook::convert(self.values, self.webhook_parameter, &mut self.conversion);
        self.others();
        self.conversion.refuse_invalid_settings(self.values);
        self.conversion
    }

    /// A value that is set; charts write empty values for unset ones.
    fn given(&self, key: &str) -> Option<&Value> {
        given(self.values, key)
    }

    fn switch(&mut self, key: &str) -> Option<bool> {
        let value = self.given(key)?.clone();
        let read = switch(&value);
        if read.is_none() {
            self.conversion
                .refuse(key, &value, "expected true or false");
        }
        read
    }

    fn handler(&mut self) {
        for key in [
            "dryRun",
            "cordonOnly",
            "taintNode",
            "enableOutOfServiceTaint",
        ] {
            if let Some(on) = self.switch(key) {
                self.conversion.handler.insert(key.to_owned(), json!(on));
            }
        }
        // The older name is used where the newer one is not set.
        let tag = self
            .given("managedTag")
            .or_else(|| self.given("managedAsgTag"));
        if let Some(tag) = tag.cloned() {
            self.conversion.handler.insert("managedTag".to_owned(), tag);
        }
        if let Some(effect) = self.given("taintEffect").cloned() {
            self.conversion
                .handler
                .insert("taintEffect".to_owned(), effect);
        }
        self.grace_period();
        // In queue mode NTH drains for every message.
        let queue = self.switch("enableSqsTerminationDraining") == Some(true);
        let drains = self.switch("enableRebalanceDraining") == Some(true);
        let watches = self.switch("enableRebalanceMonitoring") == Some(true);
        let rebalance = match (queue || drains, watches) {
            (true, _) => "drain",
            (false, true) => "cordon",
            (false, false) => "ignore",
        };
        self.conversion
            .handler
            .insert("rebalance".to_owned(), json!(rebalance));
        for (key, fixed, remedy) in FIXED {
            // The older name is used where the newer one is not set, as for the tag itself.
            if *key == "checkASGTagBeforeDraining" && self.given("checkTagBeforeDraining").is_some()
            {
                continue;
            }
            if let Some(on) = self.switch(key)
                && on != *fixed
            {
                self.conversion.refuse(key, &json!(on), *remedy);
            }
        }
        for key in ALWAYS_ON {
            let note = match self.switch(key) {
                Some(false) => "cannot be turned off here",
                Some(true) => "not needed",
                None => continue,
            };
            self.conversion.notes.push(format!("{key}: {note}"));
        }
    }

    /// The maximum grace period of a pod in seconds, by its newer or its older name.
    fn grace_period(&mut self) {
        let keys = ["podTerminationGracePeriod", "gracePeriod"];
        let Some((key, value)) = keys
            .into_iter()
            .find_map(|key| Some((key, self.given(key)?.clone())))
        else {
            return;
        };
        match whole(&value) {
            Some(..0) => {}
            Some(seconds @ 0..=GRACE_PERIOD_MAX) => {
                self.conversion
                    .handler
                    .insert("podTerminationGracePeriod".to_owned(), json!(seconds));
                self.conversion.notes.push(format!(
                    "{key}: for pods on nodes of groups: those of NodePools have their own, cut only to what is left of their node's time"
                ));
            }
            Some(_) | None => {
                let remedy = format!(
                    "expected seconds, at most {GRACE_PERIOD_MAX}, or -1 for each pod's own"
                );
                self.conversion.refuse(key, &value, remedy);
            }
        }
    }

    /// Heartbeats of lifecycle hooks. Hooks are extended as long as EC2 Auto Scaling allows; values that NTH itself refuses are refused
    /// here too.
    fn heartbeat(&mut self) {
        let mut seconds = BTreeMap::new();
        for (key, least, most) in [
            ("heartbeatInterval", 30, 3600),
            ("heartbeatUntil", 60, 172_800),
        ] {
            let Some(value) = self
                .given(key)
                .cloned()
                .filter(|value| whole(value) != Some(-1))
            else {
                continue;
            };
            match whole(&value).filter(|value| (least..=most).contains(value)) {
                Some(value) => drop(seconds.insert(key, value)),
                None => {
                    let remedy = format!("expected seconds from {least} to {most}, or -1 for none");
                    self.conversion.refuse(key, &value, remedy);
                }
            }
        }
        match (seconds.get("heartbeatInterval"), seconds.get("heartbeatUntil")) {
            (None, Some(until)) => self.conversion.refuse(
                "heartbeatUntil",
                &json!(until),
                "it has no effect without heartbeatInterval: take it out",
            ),
            (Some(interval), Some(until)) if interval > until => self.conversion.refuse(
                "heartbeatInterval",
                &json!(interval),
                "expected no more than heartbeatUntil",
            ),
            (Some(_), _) => self.conversion.notes.push(
                "heartbeatInterval: not needed: hooks are extended while pods leave, until EC2 Auto Scaling allows no more".to_owned(),
            ),
            (None, None) => {}
        }
    }

    fn others(&mut self) {
        for (key, value) in self.values {
            let key = key.as_str();
            let is_read = SUPPORTED.contains(&key)
                || webhook::OPTIONS.contains(&key)
                || ALWAYS_ON.contains(&key)
                || FIXED.iter().any(|(fixed, ..)| *fixed == key);
            if is_read || given(self.values, key).is_none() {
                continue;
            }
            let is_missed = |(missed, _): &&(&str, &str)| *missed == key;
            let not_needed = NOT_NEEDED.contains(&key)
                || NOT_NEEDED_PREFIXES
                    .iter()
                    .any(|prefix| key.starts_with(prefix));
            if let Some((_, why)) = UNSUPPORTED.iter().find(is_missed) {
                if whole(value) != Some(-1) {
                    self.conversion
                        .notes
                        .push(format!("{key}: not supported: {why}"));
                }
            } else if ["awsAccessKeyID", "awsSecretAccessKey"].contains(&key) {
                let remedy = "access keys are not imported: Whittle's functions have roles; delete this key in IAM";
                self.conversion.refuse(key, &json!("***"), remedy);
            } else if not_needed {
                self.conversion.notes.push(format!("{key}: not needed"));
            } else {
                let remedy = match api::syntax::nearest(key, known()) {
                    Some(meant) => format!(
                        "no chart has this option (did you mean {meant}?): correct it or take it out"
                    ),
                    None => "no chart has this option: take it out".to_owned(),
                };
                self.conversion.refuse(key, value, remedy);
            }
        }
    }
}
