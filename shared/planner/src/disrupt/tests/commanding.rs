//! Contents of commands and their plans.

use model::plan::Expected;

use super::*;

#[test]
fn plan_launches_before_it_deletes_and_nominates_nodes() {
    let moved = TestCluster::new()
        .node("a", "small", &[500])
        .node("b", "small", &[1_400]);
    let plan = disrupt(&moved.0).commands[0].plan();
    let [nomination] = &plan.nominations[..] else {
        panic!("{plan:?}")
    };
    assert_eq!(nomination.node, Expected::Node("b".into()));
    let replaced = TestCluster::new().node("n", "large", &[1_500]);
    let plan = disrupt(&replaced.0).commands[0].plan();
    let launches = plan
        .actions
        .iter()
        .map(|planned| planned.action.launch().is_some());
    assert_eq!(launches.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn savings_are_the_price_of_nodes_minus_that_of_replacements() {
    let command = disrupt(&TestCluster::new().node("n", "large", &[1_500]).0)
        .commands
        .remove(0);
    assert_eq!(command.savings, NanosPerHour(300_000_000));
    assert_eq!(
        command.because,
        "Underutilized: n of $0.4000/h, replaced by 1 of $0.1000/h"
    );
}

/// Replacement by spot, with no spot offering of the type that is cheapest on demand.
#[test]
fn unavailable_instance_type_has_no_price() {
    let cluster = TestCluster::new()
        .node("n", "medium", &[100])
        .with(|snapshot| {
            let both = one_of(CAPACITY_TYPE, &["spot", "on-demand"]);
            snapshot.node_pools[0].template.requirements = vec![both];
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            let small = &mut Arc::make_mut(types)[0];
            small.offerings[1].available = false;
            small.offerings[0].price = NanosPerHour(50_000_000);
        });
    let command = disrupt(&cluster.0).commands.remove(0);
    let replacement = &command.replacements[0];
    let names = replacement.instance_types.iter().map(|name| name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["small", "medium"]);
    assert_eq!(replacement.cheapest.price, NanosPerHour(i64::MAX));
    assert_eq!(
        command.because,
        "Underutilized: n of $0.2000/h, replaced by 1 of unknown price"
    );
    assert_eq!(command.savings, NanosPerHour(0));
}

#[test]
fn node_of_a_discontinued_instance_type_has_an_unknown_price() {
    let cluster = TestCluster::new().node("n", "large", &[]).with(|snapshot| {
        let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
        Arc::make_mut(types).retain(|instance_type| instance_type.name.as_str() != "large");
    });
    let command = disrupt(&cluster.0).commands.remove(0);
    assert_eq!(command.because, "Empty: n of unknown price");
}
