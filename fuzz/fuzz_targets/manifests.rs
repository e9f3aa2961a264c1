//! Fuzz target of manifests: parses an input as manifests, plans, and checks the plan.

use std::sync::Arc;

use api::manifests::Manifests;
use jiff::Timestamp;
use model::InstanceType;

#[path = "../../cli/src/cluster.rs"]
pub(crate) mod cluster;
#[path = "../../cli/src/workloads.rs"]
mod workloads;

/// Plans for the cluster that these manifests describe.
///
/// # Panics
///
/// If the checker rejects the plan.
pub(crate) fn plan(manifests: &str, types: &Arc<Vec<InstanceType>>) {
    let mut read = Manifests::default();
    read.read("input", manifests);
    let mut settings = cluster::aws_settings();
    for gate in ["CapacityBuffer", "NodeOverlay"] {
        settings.feature_gates.insert(gate.to_owned(), true);
    }
    let mut snapshot = cluster::empty(Timestamp::UNIX_EPOCH, settings);
    let objects = read.objects.into_iter();
    let mut objects = objects.map(|manifest| manifest.object).collect();
    let (ownership, _notes) = workloads::settle(&mut objects);
    let _without_effect = cluster::add_objects(&mut snapshot, objects, types);
    workloads::make_pods(&mut snapshot, &ownership);
    let plan = planner::provision(&snapshot, planner::Share::TURN);
    let violations = plancheck::check(&snapshot, &plan);
    assert!(violations.is_empty(), "{violations:?}");
}

/// Instance types to choose from.
///
/// # Panics
///
/// If the catalog in the repository cannot be read.
#[expect(clippy::unwrap_used, reason = "the file is in the repository")]
pub(crate) fn types() -> Arc<Vec<InstanceType>> {
    let packed = include_bytes!("../../cli/data/us-east-1.json.gz");
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut bytes).unwrap();
    Arc::new(api::convert::catalog_file::read(&bytes).unwrap())
}
