use super::*;
use crate::fixtures;

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: String::new(),
        effect,
    }
}

fn unregistered() -> Taint {
    taint(taint::UNREGISTERED, TaintEffect::NoExecute)
}

/// A NodeClaim and its Node as the kubelet created it.
fn joining(taints: &[Taint]) -> (NodeClaim, Node) {
    let mut claim = fixtures::claim("a", &[]);
    claim.annotations = BTreeMap::from([("note".to_owned(), "mine".to_owned())]);
    let mut node = fixtures::node("n", &claim);
    node.labels.remove(label::REGISTERED);
    node.taints = taints.to_vec();
    (claim, node)
}

#[test]
fn joining_node_is_linked_to_its_node_claim() {
    let (claim, node) = joining(&[unregistered()]);
    let update = sync(&claim, &node).unwrap();
    let of = (
        update.name.as_str(),
        update.uid.as_str(),
        update.resource_version.as_str(),
    );
    assert_eq!(of, ("n", "uid-n", "1"));
    assert_eq!(update.set_labels[label::REGISTERED], "true");
    assert_eq!(update.set_annotations, claim.annotations);
    assert_eq!(update.add_finalizers, [finalizer::TERMINATION]);
    assert_eq!(update.taints, Some(Vec::new()));
    assert_eq!(update.owner, Some((claim.name, claim.uid)));
}

#[test]
fn taints_are_merged_by_key_and_effect() {
    use TaintEffect::{NoExecute, NoSchedule};
    let (mut claim, node) = joining(&[unregistered(), taint("a", NoSchedule)]);
    claim.spec.taints = vec![taint("a", NoSchedule), taint("a", NoExecute)];
    claim.spec.startup_taints = vec![taint("b", NoSchedule)];
    let merged = vec![
        taint("a", NoSchedule),
        taint("a", NoExecute),
        taint("b", NoSchedule),
    ];
    assert_eq!(sync(&claim, &node).unwrap().taints, Some(merged));
    let (_, mut own) = joining(&[unregistered()]);
    let label = label::DO_NOT_SYNC_TAINTS;
    own.labels.insert(label.to_owned(), "true".to_owned());
    assert_eq!(sync(&claim, &own).unwrap().taints, Some(Vec::new()));
}

#[test]
fn missing_unregistered_taint_is_detected_before_registration() {
    let (_, tainted) = joining(&[unregistered()]);
    assert!(!lacks_taint(&tainted));
    let (_, mut open) = joining(&[taint(taint::UNREGISTERED, TaintEffect::NoSchedule)]);
    assert!(lacks_taint(&open));
    open.labels
        .insert(label::REGISTERED.to_owned(), "true".to_owned());
    assert!(!lacks_taint(&open));
}

#[test]
fn registered_node_gets_only_its_missing_label() {
    let (claim, mut node) = joining(&[]);
    node.labels
        .insert(label::REGISTERED.to_owned(), "true".to_owned());
    let class = "karpenter.k8s.aws/ec2nodeclass";
    assert_eq!(node.labels.remove(class).as_deref(), Some("default"));
    let label = hydration::label_of_node(&claim, &node).unwrap();
    let update = sync(&claim, &node).unwrap();
    let expected = NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        set_labels: BTreeMap::from([label]),
        ..NodeUpdate::default()
    };
    assert_eq!(update, expected);
}
