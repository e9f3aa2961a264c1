//! The API server of a measurement: a cluster of the requested size, and pods that become pending on request.

use anyhow::{Context, Result};
use sandbox::{Sandbox, SandboxOptions, WorldClock};

use super::cluster;
use crate::support::announce;

/// Serves until the end of standard input. Each line of it is the number of pods to pend.
pub(crate) async fn serve(nodes: usize, pods: usize) -> Result<()> {
    // The clock is stopped, so simulated kubelets, schedulers and controllers take no time from the measured turns.
    let clock = WorldClock::starting_at(WorldClock::wall().now());
    let sandbox = Sandbox::start(SandboxOptions {
        clock,
        ..SandboxOptions::default()
    })
    .await?;
    sandbox.with(|world, now| {
        for crd in api::schema::crds() {
            let kind = world
                .server
                .kinds
                .by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
            let kind = kind.context("CRDs are not served")?.clone();
            let options = sandbox::server::WriteOptions::default();
            world
                .server
                .create(&kind, "", crd.manifest, &options, now)
                .map_err(|error| anyhow::anyhow!("{error}"))?;
        }
        cluster::fill(world, now, nodes, pods)
    })?;
    announce(&sandbox)?;
    let reader = tokio::task::spawn_blocking(move || -> Result<Sandbox> {
        let mut waiting = 0;
        for line in std::io::stdin().lines() {
            let pods = line?.parse()?;
            sandbox.with(|world, now| cluster::wait(world, now, waiting, pods))?;
            waiting += pods;
        }
        Ok(sandbox)
    });
    reader.await??.stop().await;
    Ok(())
}
