//! Nodes that would be disrupted, and the reason for each node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use model::{NanosPerHour, NodePoolName, Snapshot, labels::NODE_POOL, plan::ExpectedOffering};
use planner::{Alternative, DisruptionResult, NodeReport, Reason};
use serde_json::{Value, json};

use super::{
    counted, listed,
    parts::{self, Parts},
};
use crate::decision;

pub(super) fn json(pass: &DisruptionResult, nodes: &[NodeReport], snapshot: &Snapshot) -> Value {
    let mut plan = decision::disruption(pass);
    let places = (0..pass.commands.len()).map(|number| match number.checked_sub(1) {
        None => "/command/replace".to_owned(),
        Some(further) => format!("/more/{further}/replace"),
    });
    for (command, place) in pass.commands.iter().zip(places) {
        parts::add_to(plan.pointer_mut(&place), &command.replacements, snapshot);
    }
    if let Some(fields) = plan.as_object_mut() {
        let pools = pools(snapshot);
        let shown = nodes.iter().map(|outlook| {
            let mut shown = node(outlook);
            let parts = parts_of(outlook, &pools, snapshot);
            if let (Some(parts), Some(fields)) = (parts, shown.as_object_mut()) {
                fields.insert("priceParts".to_owned(), parts.json());
            }
            shown
        });
        fields.insert("nodes".to_owned(), shown.collect());
    }
    plan
}

/// The NodePools of nodes, and of NodeClaims without one, by name.
fn pools(snapshot: &Snapshot) -> BTreeMap<&str, NodePoolName> {
    let claims = snapshot.node_claims.iter();
    let claims = claims.map(|claim| (claim.name.0.as_str(), &claim.labels));
    let nodes = snapshot.nodes.iter();
    let nodes = nodes.map(|node| (node.name.0.as_str(), &node.labels));
    let of = |(name, labels): (_, &BTreeMap<String, String>)| {
        Some((name, labels.get(NODE_POOL)?.as_str().into()))
    };
    claims.chain(nodes).filter_map(of).collect()
}

fn parts_of(
    node: &NodeReport,
    pools: &BTreeMap<&str, NodePoolName>,
    snapshot: &Snapshot,
) -> Option<Parts> {
    Parts::of(node.price, pools.get(node.node.as_str())?, snapshot)
}

fn node(node: &NodeReport) -> Value {
    let alternative = node.alternative.as_ref().map(|found| {
        let nodes = found.nodes.iter().map(|replacement| {
            json!({
                "instanceType": replacement.instance_type,
                "capacityType": replacement.capacity_type.as_str(),
                "zone": replacement.zone,
                "price": decision::dollars(replacement.price),
            })
        });
        json!({"nodes": nodes.collect::<Vec<_>>(), "saving": decision::dollars(found.saving)})
    });
    json!({
        "node": node.node,
        "price": known(node.price).map(decision::dollars),
        "reason": node.reason.map(Reason::as_str),
        "alternative": alternative,
        "kept": node.kept,
    })
}

pub(super) fn known(price: NanosPerHour) -> Option<NanosPerHour> {
    Some(price).filter(|price| price.0 > 0)
}

/// Renders the nodes of this snapshot, with the parts of their prices on request.
pub(super) fn text(
    pass: &DisruptionResult,
    nodes: &[NodeReport],
    snapshot: &Snapshot,
    shows_parts: bool,
) -> String {
    let pools = pools(snapshot);
    let (unmanaged, expired) = (unmanaged(snapshot), expired(snapshot));
    let mut text = String::new();
    if !expired.is_empty() {
        let number = counted(expired.len(), "node");
        let names: Vec<&str> = expired.keys().map(String::as_str).collect();
        let names = listed(&names);
        let _ = writeln!(text, "{number} would go because of expireAfter: {names}");
    }
    if pass.commands.is_empty() {
        text.push_str(match expired.is_empty() {
            true => "No node would go now.\n",
            false => "No other node would go now.\n",
        });
    } else {
        let gone: usize = pass
            .commands
            .iter()
            .map(|command| command.nodes.len())
            .sum();
        let saved: i64 = pass.commands.iter().map(|command| command.savings.0).sum();
        let (gone, saved) = (counted(gone, "node"), saving(NanosPerHour(saved)));
        let _ = writeln!(text, "{gone} would go first, {saved}:");
        for command in &pass.commands {
            let _ = writeln!(text, "  {}", command.because);
            let replacements = command.replacements.iter().filter(|_| shows_parts);
            let parts = replacements
                .filter_map(|launch| Parts::of(launch.cheapest.price, &launch.node_pool, snapshot));
            for parts in parts {
                let _ = writeln!(text, "    {}", parts.text());
            }
        }
    }
    if !nodes.is_empty() || !unmanaged.is_empty() {
        let _ = writeln!(text, "\nEach by itself:");
    }
    for node in nodes {
        let words = match expired.get(&node.node) {
            Some(age) => format!(
                "goes, because it is older than its expireAfter of {age}; otherwise: {}",
                words(node)
            ),
            None => words(node),
        };
        let price = known(node.price).map(|price| format!("${price}/h"));
        let price = price.as_deref().unwrap_or("price unknown");
        let _ = writeln!(text, "  {}  {price}  {words}", node.node);
        let parts = parts_of(node, &pools, snapshot).filter(|_| shows_parts);
        text.extend(parts.map(|parts| format!("    {}\n", parts.text())));
    }
    for (node, why) in unmanaged {
        let _ = writeln!(text, "  {node}  stays: {why}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Nodes that exceed their maximum age, with that age: they are drained even if voluntary disruption is blocked.
fn expired(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let nodes = snapshot.nodes.iter();
    let names: BTreeMap<&str, &str> = nodes
        .map(|node| (node.provider_id.as_str(), node.name.0.as_str()))
        .collect();
    let claims = snapshot.node_claims.iter();
    let expired = claims.filter_map(|claim| {
        let age = claim.spec.expire_after.as_deref()?;
        let time = api::duration::parse_go_duration(age)?;
        let is_over = snapshot.now.duration_since(claim.created_at?) >= time;
        let name = names.get(claim.status.provider_id.as_str());
        let name = name.map_or_else(|| claim.name.to_string(), |name| (*name).to_owned());
        is_over.then(|| (name, age.to_owned()))
    });
    expired.collect()
}

/// Nodes without a known NodeClaim, each with an explanation.
fn unmanaged(snapshot: &Snapshot) -> Vec<(String, &'static str)> {
    let claims = snapshot.node_claims.iter();
    let claimed: BTreeSet<&str> = claims
        .map(|claim| claim.status.provider_id.as_str())
        .collect();
    let nodes = snapshot.nodes.iter();
    let without = nodes.filter(|node| !claimed.contains(node.provider_id.as_str()));
    without
        .map(|node| {
            let why = match node.labels.contains_key(NODE_POOL) {
                true => "no NodeClaim of it is given",
                false => "no NodePool made it",
            };
            (node.name.to_string(), why)
        })
        .collect()
}

pub(crate) fn words(node: &NodeReport) -> String {
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
    let alike = found.nodes.chunk_by(|node, next| node == next);
    let nodes: Vec<String> = alike.filter_map(offering).collect();
    let instead = match (nodes.as_slice(), reason) {
        ([], Some(Reason::Empty)) => "nothing on it has to move".to_owned(),
        ([], _) => "its pods fit on other nodes".to_owned(),
        (nodes, _) => format!("its pods fit on {}", nodes.join(" and ")),
    };
    format!("{instead}, {}", saving(found.saving))
}

/// Renders a saving or an additional cost, without a sign.
fn saving(saved: NanosPerHour) -> String {
    match saved.0 {
        0 => "at the same cost".to_owned(),
        1.. => format!("saving ${saved}/h"),
        _ => format!("costing ${}/h more", NanosPerHour(saved.0.saturating_neg())),
    }
}

/// Expected nodes that have the same offering.
fn offering(nodes: &[ExpectedOffering]) -> Option<String> {
    let node = nodes.first()?;
    let (instance_type, capacity_type, zone) =
        (&node.instance_type, node.capacity_type, &node.zone);
    let node = format!(
        "{instance_type} {capacity_type} {zone} at ${}/h",
        node.price
    );
    Some(match nodes.len() {
        1 => node,
        number => format!("{number} nodes {node} each"),
    })
}
