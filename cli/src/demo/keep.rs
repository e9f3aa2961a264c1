//! Commands to try on a cluster that stays up after its story.

use std::fmt::Write as _;

use anyhow::Result;
use model::CapacityType;

use super::{
    commands::{largest, launches},
    names::CLUSTER,
    notices::{NOTICE, SPOT},
    picture::Picture,
    script::Script,
    world::{CHANGED, KUBECONFIG, World},
};

/// Lines to paste into another terminal.
pub(super) async fn guide(world: &World, script: &Script) -> Result<String> {
    let directory = world.directory();
    let kubeconfig = directory.join(KUBECONFIG);
    let (kubeconfig, directory) = (kubeconfig.display(), directory.display());
    let whittle = std::env::args().next();
    let whittle = whittle.unwrap_or_else(|| "whittle".to_owned());
    let picture = world.pictures().borrow().clone();
    let mut text = format!(
        "\nThe cluster stays up. In another terminal:\n\n  export KUBECONFIG={kubeconfig}\n  kubectl get nodeclaims\n  \
         kubectl scale deployment {} --replicas=80\n",
        script.deployment
    );
    if let Some(node) = spot_node(&picture) {
        let _ = writeln!(
            text,
            "\nEC2 announces the end of a spot instance:\n\n  kubectl annotate node {node} {NOTICE}={SPOT}"
        );
    }
    text.push_str("\nThe journal has the decisions:\n\n");
    let from = format!("--from {directory}");
    let mut line = |command: &str| {
        let _ = writeln!(text, "  {whittle} {command} {from}");
    };
    line(&format!("journal {CLUSTER}"));
    if let Some(pod) = picture.pods_of(&script.deployment).next() {
        line(&format!("explain pod/{} --cluster {CLUSTER}", pod.key.name));
    }
    let launches = launches(world.directory()).await?;
    if let Some(turn) = largest(&launches) {
        line(&format!(
            "replay {CLUSTER} {turn} --with {directory}/{CHANGED}"
        ));
    }
    // Turns before the first launch knew no NodePool.
    if let Some(first) = launches.first() {
        let since = first.at;
        line(&format!(
            "review {CLUSTER} --with {directory}/{CHANGED} --since {since}"
        ));
    }
    line(&format!("compare {CLUSTER}"));
    text.push_str("\nCtrl-C ends it.");
    Ok(text)
}

/// Name of a node with a spot instance.
fn spot_node(picture: &Picture) -> Option<&str> {
    let mut nodes = picture.claims.iter().filter_map(|claim| {
        let priced = picture.instance_of(claim)?;
        let is_spot = priced.instance.capacity_type == CapacityType::Spot;
        claim.status.node_name.as_ref().filter(|_| is_spot)
    });
    nodes.next().map(model::NodeName::as_str)
}
