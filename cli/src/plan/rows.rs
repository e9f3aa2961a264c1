//! Output of `whittle plan` as a table: one row for each node.

use model::{Plan, plan::Launch};
use planner::{NodeReport, Reason};

use super::{counted, disruption};
use crate::output::Row;

/// A node to launch.
pub(super) struct LaunchRow<'p> {
    launch: &'p Launch,
    because: &'p str,
}

/// The nodes to launch.
pub(super) fn of_plan(plan: &Plan) -> Vec<LaunchRow<'_>> {
    let launches = plan.actions.iter().filter_map(|planned| {
        Some(LaunchRow {
            launch: planned.action.launch()?,
            because: &planned.because,
        })
    });
    launches.collect()
}

/// The number of pods without a node, which the rows leave out.
pub(super) fn waiting(plan: &Plan) -> Option<String> {
    let pods = plan.unplaced.len();
    let number = counted(pods, "pod");
    (pods > 0).then(|| format!("{number} waiting: the output format text shows the reasons"))
}

impl Row for LaunchRow<'_> {
    const HEADERS: &'static [&'static str] = &[
        "NAME",
        "NODEPOOL",
        "TYPE",
        "CAPACITY",
        "ZONE",
        "COST/H",
        "PODS",
        "OTHER TYPES",
        "REASON",
    ];
    const NARROW: usize = 7;

    fn cells(&self) -> Vec<String> {
        let Launch {
            name,
            node_pool,
            cheapest,
            pods,
            instance_types,
            ..
        } = self.launch;
        vec![
            name.to_string(),
            node_pool.to_string(),
            cheapest.instance_type.clone(),
            cheapest.capacity_type.to_string(),
            cheapest.zone.clone(),
            format!("${}", cheapest.price),
            pods.len().to_string(),
            instance_types.len().saturating_sub(1).to_string(),
            self.because.to_owned(),
        ]
    }

    fn name(&self) -> String {
        self.launch.name.to_string()
    }
}

/// A node, and whether it would be disrupted by itself.
pub(super) struct NodeRow<'p>(&'p NodeReport);

pub(super) fn of_reports(nodes: &[NodeReport]) -> Vec<NodeRow<'_>> {
    nodes.iter().map(NodeRow).collect()
}

impl Row for NodeRow<'_> {
    const HEADERS: &'static [&'static str] =
        &["NODE", "COST/H", "GOES", "REASON", "SAVING/H", "DETAILS"];
    const NARROW: usize = 5;

    fn cells(&self) -> Vec<String> {
        let node = self.0;
        let goes = match (&node.kept, node.reason) {
            (None, Some(_)) => "yes",
            _ => "no",
        };
        let price = disruption::known(node.price).map(|price| format!("${price}"));
        let saving = node.alternative.as_ref();
        let saving = saving.map(|found| format!("${}", found.saving));
        vec![
            node.node.clone(),
            price.unwrap_or_default(),
            goes.to_owned(),
            node.reason.map_or("", Reason::as_str).to_owned(),
            saving.unwrap_or_default(),
            disruption::words(node),
        ]
    }

    fn name(&self) -> String {
        self.0.node.clone()
    }
}
