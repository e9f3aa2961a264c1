//! Which nodes would go, and what is to be said of each.

use std::fmt::Write as _;

use model::{NanosPerHour, plan::ExpectedOffering};
use planner::{Alternative, Outlook, Pass, Reason};
use serde_json::{Value, json};

use super::counted;
use crate::decision;

pub(super) fn json(pass: &Pass, nodes: &[Outlook]) -> Value {
    let mut plan = decision::disruption(pass);
    if let Some(fields) = plan.as_object_mut() {
        fields.insert("nodes".to_owned(), nodes.iter().map(node).collect());
    }
    plan
}

fn node(node: &Outlook) -> Value {
    let alternative = node.alternative.as_ref().map(|found| {
        let nodes = found.nodes.iter().map(|one| {
            json!({
                "instanceType": one.instance_type,
                "capacityType": one.capacity_type.as_str(),
                "zone": one.zone,
                "price": decision::dollars(one.price),
            })
        });
        json!({"nodes": nodes.collect::<Vec<_>>(), "saving": decision::dollars(found.saving)})
    });
    json!({
        "node": node.node,
        "price": decision::dollars(node.price),
        "reason": node.reason.map(Reason::as_str),
        "alternative": alternative,
        "kept": node.kept,
    })
}

pub(super) fn text(pass: &Pass, nodes: &[Outlook]) -> String {
    let mut text = String::new();
    if pass.commands.is_empty() {
        text.push_str("No node would go now.\n");
    } else {
        let gone = pass
            .commands
            .iter()
            .map(|command| command.nodes.len())
            .sum();
        let saved: i64 = pass.commands.iter().map(|command| command.savings.0).sum();
        let (gone, saved) = (counted(gone, "node"), NanosPerHour(saved));
        let _ = writeln!(text, "{gone} would go first, saving ${saved}/h:");
        for command in &pass.commands {
            let _ = writeln!(text, "  {}", command.because);
        }
    }
    if !nodes.is_empty() {
        let _ = writeln!(text, "\nEach by itself:");
    }
    for node in nodes {
        let _ = writeln!(text, "  {}  ${}/h  {}", node.node, node.price, words(node));
    }
    text.truncate(text.trim_end().len());
    text
}

pub(crate) fn words(node: &Outlook) -> String {
    let would = node
        .alternative
        .as_ref()
        .map(|found| instead(found, node.reason));
    match (&node.kept, node.reason, would) {
        (None, Some(reason), Some(would)) => format!("goes ({}): {would}", reason.as_str()),
        (None, Some(reason), None) => format!("goes ({})", reason.as_str()),
        (None, None, _) => "stays".to_owned(),
        (Some(kept), _, None) => format!("stays: {kept}"),
        (Some(kept), _, Some(would)) => format!("stays: {kept}; best otherwise: {would}"),
    }
}

fn instead(found: &Alternative, reason: Option<Reason>) -> String {
    let nodes: Vec<String> = found.nodes.iter().map(offering).collect();
    let instead = match (nodes.as_slice(), reason) {
        ([], Some(Reason::Empty)) => "nothing on it has to move".to_owned(),
        ([], _) => "its pods fit on other nodes".to_owned(),
        (nodes, _) => format!("its pods fit on {}", nodes.join(" and ")),
    };
    format!("{instead}, saving ${}/h", found.saving)
}

fn offering(one: &ExpectedOffering) -> String {
    let (kind, capacity_type, zone) = (&one.instance_type, one.capacity_type, &one.zone);
    format!("{kind} {capacity_type} {zone} at ${}/h", one.price)
}
