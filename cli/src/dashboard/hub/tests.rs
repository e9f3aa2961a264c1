use super::{
    super::{decisions::decision, document},
    *,
};
use crate::cluster;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn hub() -> Hub {
    let name = "test".to_owned();
    Hub::new(Source { kind: "demo", name }, at(0))
}

/// A node of this price, named as its NodeClaim.
fn node(name: &str, hourly: f64) -> NodeBox {
    let mut snapshot = cluster::empty(at(0), cluster::aws_settings());
    let claim = model::node_claim::NodeClaim {
        name: name.into(),
        ..Default::default()
    };
    snapshot.node_claims.push(claim);
    NodeBox {
        hourly: Some(hourly),
        list_hourly: Some(1.0),
        ..document::nodes(&snapshot).remove(0)
    }
}

fn decided(hub: &Hub) -> Vec<(String, String, Option<f64>)> {
    let kept = hub.lock();
    let decisions = kept.state.decisions.iter();
    decisions
        .map(|decision| (decision.act.clone(), decision.why.clone(), decision.hourly))
        .collect()
}

#[test]
fn decisions_have_the_price_of_their_node_once_it_is_known() {
    let hub = hub();
    let launch = |why| decision(at(1), DecisionKind::Launch, "launch", "web", why);
    hub.decided(vec![launch("for 1 pod")]);
    assert_eq!(
        decided(&hub),
        [("launch".to_owned(), "for 1 pod".to_owned(), None)]
    );
    hub.show_cost(at(2), &[node("web", 0.25)]);
    // A better reason replaces the old one, and the node's price outlives the node.
    hub.decided(vec![launch("for 2 pods")]);
    hub.show_cost(at(3), &[]);
    let delete = decision(at(4), DecisionKind::Delete, "delete", "web", "empty");
    hub.decided(vec![delete]);
    assert_eq!(
        decided(&hub),
        [
            ("launch".to_owned(), "for 2 pods".to_owned(), Some(0.25)),
            ("delete".to_owned(), "empty".to_owned(), Some(-0.25)),
        ]
    );
}

#[test]
fn time_passes_without_a_new_revision() {
    let hub = hub();
    let nodes = [node("web", 0.25)];
    hub.show_cost(at(1), &nodes);
    let revision = hub.lock().state.revision;
    hub.show_cost(at(9), &nodes);
    let answer = hub.after(Some(revision)).unwrap();
    assert!(answer.text.is_none());
    assert_eq!(answer.observed_at, at(9));
    let kept = hub.lock();
    let [cost] = kept.state.costs.as_slice() else {
        panic!("{:?}", kept.state.costs);
    };
    assert_eq!((cost.at, cost.hourly, cost.list), (at(1), 0.25, 1.0));
}

fn revision(hub: &Hub) -> u64 {
    hub.lock().state.revision
}

fn observation(minute: i64, nodes: Vec<NodeBox>) -> Observation {
    Observation {
        at: at(minute),
        pools: Vec::new(),
        nodes,
        pending: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn decisions_that_are_observed_again_make_no_new_revision() {
    let hub = hub();
    let keep = |minute, why| decision(at(minute), DecisionKind::Keep, "keep", "web", why);
    let decisions = vec![keep(1, "pod has do-not-disrupt"), keep(2, "cheapest")];
    hub.decided(decisions.clone());
    let known = revision(&hub);
    hub.decided(decisions);
    // A record that arrives late.
    hub.decided(vec![keep(1, "disrupted a moment ago")]);
    assert_eq!(revision(&hub), known);
    let [(.., why, _)] = &decided(&hub)[..] else {
        panic!("not one decision");
    };
    assert_eq!(why, "cheapest");
}

#[test]
fn decisions_beyond_the_bound_make_no_new_revision() {
    let hub = hub();
    let of = |minute, number: usize| {
        let name = format!("web-{number:04}");
        decision(
            at(minute),
            DecisionKind::Launch,
            "launch",
            &name,
            "for 1 pod",
        )
    };
    // The newest is no longer observed later on, and the two oldest, of which one is dropped, are of the same time.
    hub.decided(vec![of(9, 0)]);
    let oldest = [of(1, 1), of(1, 2)];
    let others = (3..=DECISIONS_MAX).map(|number| of(2, number));
    let decisions: Vec<Decision> = oldest.into_iter().chain(others).collect();
    hub.decided(decisions.clone());
    let known = revision(&hub);
    assert_eq!(decided(&hub).len(), DECISIONS_MAX);
    hub.decided(decisions);
    assert_eq!(revision(&hub), known);
}

#[test]
fn older_observations_do_not_replace_newer_ones() {
    let hub = hub();
    let names = |hub: &Hub| -> Vec<String> {
        let kept = hub.lock();
        let nodes = kept.state.nodes.iter();
        nodes.map(|node| node.name.clone()).collect()
    };
    let launch = decision(at(1), DecisionKind::Launch, "launch", "old", "for 1 pod");
    hub.decided(vec![launch]);
    hub.show(observation(5, vec![node("new", 0.5)]));
    hub.show(observation(9, vec![node("new", 0.5)]));
    hub.show(observation(7, vec![node("old", 0.25), node("new", 0.75)]));
    assert_eq!(names(&hub), ["new"]);
    hub.show(observation(12, vec![node("new", 0.75)]));
    let costs: Vec<_> = hub
        .lock()
        .state
        .costs
        .iter()
        .map(|cost| (cost.at, cost.hourly))
        .collect();
    assert_eq!(costs, [(at(5), 0.5), (at(12), 0.75)]);
    // Its price is of use.
    assert_eq!(decided(&hub)[0].2, Some(0.25));
}
