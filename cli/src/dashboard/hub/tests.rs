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
