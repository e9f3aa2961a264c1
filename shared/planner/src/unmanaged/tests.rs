use model::{NodeName, node::Ready};

use crate::fixtures;

use super::*;

const EVENT: &str = "7bf73129-1428-4cd3-a780-95db273d1602";

fn node() -> Node {
    Node {
        name: "ip-10-0-0-9".into(),
        uid: "uid".into(),
        resource_version: "7".to_owned(),
        provider_id: "aws:///us-east-1a/i-1".into(),
        boot_id: "first".into(),
        ready: Ready {
            status: ConditionStatus::True,
            since: None,
        },
        ..Node::default()
    }
}

fn announced(kind: &str, reboots: bool) -> Announcement<'_> {
    Announcement {
        kind,
        event: EVENT,
        reboots,
    }
}

fn with_taints() -> UnmanagedNodeSettings {
    UnmanagedNodeSettings {
        taint: Some(TaintEffect::NoSchedule),
        ..UnmanagedNodeSettings::default()
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// Applies an update to a node as the API server would.
fn updated(node: &Node, update: NodeUpdate) -> Node {
    let mut node = node.clone();
    node.labels.extend(update.set_labels);
    node.annotations.extend(update.set_annotations);
    node.labels
        .retain(|key, _| !update.remove_labels.contains(key));
    node.annotations
        .retain(|key, _| !update.remove_annotations.contains(key));
    node.taints = update.taints.unwrap_or(node.taints);
    node.unschedulable = (node.unschedulable || update.cordon) && !update.uncordon;
    node
}

/// A node marked for a reboot that has not rebooted yet.
fn rebooting(settings: &UnmanagedNodeSettings) -> Node {
    let node = node();
    let update = settings.mark(&node, &[announced("scheduled_change", true)], now());
    updated(&node, update.unwrap())
}

fn back(snapshot_of: &[Node]) -> Vec<NodeUpdate> {
    let snapshot = Snapshot {
        nodes: snapshot_of.to_vec(),
        ..fixtures::snapshot()
    };
    let actions = rebooted(&snapshot).plan.actions.into_iter();
    let update = |planned: model::plan::Planned| {
        let Action::UpdateNode(update) = planned.action else {
            panic!("{planned:?}")
        };
        update
    };
    actions.map(update).collect()
}

#[test]
fn taint_names_the_event_and_is_set_once() {
    let (settings, node) = (with_taints(), node());
    let spot = announced("spot_interrupted", false);
    let update = settings.mark(&node, &[spot, spot], now()).unwrap();
    assert_eq!(update.resource_version, "7", "of what was read");
    let taints = update.taints.clone().unwrap();
    let shown: Vec<_> = taints
        .iter()
        .map(|taint| (taint.key.as_str(), taint.value.as_str()))
        .collect();
    assert_eq!(shown, [("aws-node-termination-handler/spot-itn", EVENT)]);
    let again = Announcement {
        event: "another",
        ..spot
    };
    let marked = updated(&node, update);
    assert_eq!(settings.mark(&marked, &[again], now()), None);
}

#[test]
fn taint_of_another_effect_is_distinct() {
    let (settings, mut node) = (with_taints(), node());
    let key = "aws-node-termination-handler/spot-itn".to_owned();
    let there = [
        (key, TaintEffect::NoExecute),
        ("other".to_owned(), TaintEffect::NoSchedule),
    ];
    node.taints.extend(there.map(|(key, effect)| Taint {
        key,
        value: String::new(),
        effect,
    }));
    let spot = announced("spot_interrupted", false);
    let update = settings.mark(&node, &[spot], now()).unwrap();
    let effects: Vec<TaintEffect> = update.taints.iter().flatten().map(|t| t.effect).collect();
    use TaintEffect::{NoExecute, NoSchedule};
    assert_eq!(effects, [NoExecute, NoSchedule, NoSchedule]);
}

#[test]
fn event_id_is_converted_to_a_label_value() {
    for (id, value) in [
        ("", ""),
        ("a b/c:d", "abcd"),
        ("-a-", "a"),
        (&"x".repeat(80), &"x".repeat(63)),
    ] {
        assert_eq!(label_value(id), value);
    }
}

#[test]
fn node_cordoned_for_a_reboot_is_marked_for_uncordon() {
    let node = rebooting(&UnmanagedNodeSettings::default());
    assert!(node.unschedulable);
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    assert_eq!(label(nth::ACTION), Some("UncordonAfterReboot"));
    assert_eq!(label(nth::ACTION_TIME), Some("1800000000"));
    assert_eq!(label(nth::EVENT_ID), Some(EVENT));
    assert_eq!(node.annotations[annotation::BOOT_ID], "first");
}

#[test]
fn other_cordoned_nodes_stay_cordoned() {
    let settings = UnmanagedNodeSettings::default();
    let retired = settings.mark(&node(), &[announced("scheduled_change", false)], now());
    let mut cordoned = node();
    cordoned.unschedulable = true;
    let cordoned = settings.mark(&cordoned, &[announced("scheduled_change", true)], now());
    let mut nameless = node();
    nameless.boot_id.clear();
    let nameless = settings.mark(&nameless, &[announced("scheduled_change", true)], now());
    for update in [retired, cordoned, nameless] {
        let labels = update.unwrap().set_labels;
        assert!(!labels.contains_key(nth::ACTION), "{labels:?}");
    }
}

#[test]
fn node_is_restored_after_its_reboot() {
    let mut marked = rebooting(&with_taints());
    marked.taints.push(Taint {
        key: nth::OUT_OF_SERVICE.into(),
        value: "nodeshutdown".into(),
        effect: TaintEffect::NoExecute,
    });
    assert_eq!(back(std::slice::from_ref(&marked)), [], "not yet");
    marked.boot_id = "second".into();
    let updates = back(std::slice::from_ref(&marked));
    let [update] = updates.as_slice() else {
        panic!("{updates:?}")
    };
    let expected = Node {
        boot_id: "second".into(),
        ..node()
    };
    assert_eq!(updated(&marked, update.clone()), expected);
    assert_eq!(update.resource_version, "7");
}

#[test]
fn unready_or_terminating_node_is_not_uncordoned() {
    let mut down = rebooting(&UnmanagedNodeSettings::default());
    down.boot_id = "second".into();
    down.ready.status = ConditionStatus::Unknown;
    assert_eq!(back(std::slice::from_ref(&down)), []);
    let mut leaving = down.clone();
    leaving.ready.status = ConditionStatus::True;
    let notice = Notice {
        instance: "i-1".into(),
        kind: "spot_interrupted".into(),
        deadline: None,
        at: None,
        action: InterruptionAction::Drain,
        unmanaged: true,
        hook: None,
        event: EVENT.into(),
        reboots: false,
        done: false,
    };
    let snapshot = Snapshot {
        nodes: vec![leaving],
        notices: vec![notice],
        ..fixtures::snapshot()
    };
    assert_eq!(rebooted(&snapshot), Decision::default());
}

#[test]
fn label_set_by_others_is_kept() {
    let mut marked = rebooting(&UnmanagedNodeSettings::default());
    marked.name = NodeName::from("other");
    marked.boot_id = "second".into();
    let key = label::EXCLUDE_FROM_LOAD_BALANCERS;
    marked.labels.insert(key.into(), "ops".into());
    let [update] = back(std::slice::from_ref(&marked)).try_into().unwrap();
    assert!(!update.remove_labels.iter().any(|label| label == key));
}
