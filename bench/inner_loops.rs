//! Benchmarks of the search's inner loops and of a whole search: `make bench-inner-loops`.

use std::{collections::BTreeMap, hint::black_box};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use model::{
    CapacityType, InstanceType, NanosPerHour, NodePoolName, Offering, PodKey, Resources,
    catalog::Overhead,
    labels,
    pod::{Pod, TopologySpread, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    selector::{LabelSelector, NodeSelectorRequirement, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode},
    volume::Storage,
};
use scheduling::{Effort, InnerLoops, Input, Options, Pool, solve};

const ZONES: [&str; 3] = ["a", "b", "c"];
const ARCHS: [&str; 2] = ["amd64", "arm64"];
const FAMILIES: i64 = 50;
/// Number of sizes of an instance family; each has twice the CPU of the one before.
const SIZES: i64 = 8;
const PODS: i64 = 1_000;
/// Number of different pod specifications.
const POD_SPECS: i64 = 50;

/// Scheduling problem: 400 instance types in three zones, two NodePools and a thousand pods of fifty specifications; half of
/// them select an architecture, a third spread over zones.
struct SchedulingProblem {
    types: Vec<InstanceType>,
    pools: [(NodePoolName, Vec<NodeSelectorRequirement>); 2],
    pods: Vec<Pod>,
    storage: Storage,
}

impl SchedulingProblem {
    fn new() -> Self {
        let only = |key: &str, values: &[&str]| NodeSelectorRequirement {
            key: key.to_owned(),
            operator: Operator::In,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            min_values: None,
        };
        Self {
            types: (0..FAMILIES * SIZES)
                .map(|n| instance_type(n / SIZES, n % SIZES))
                .collect(),
            pools: [
                (NodePoolName::from("general"), Vec::new()),
                (
                    NodePoolName::from("steady"),
                    vec![only(labels::CAPACITY_TYPE, &["on-demand"])],
                ),
            ],
            pods: (0..PODS).map(pod).collect(),
            storage: Storage::default(),
        }
    }

    fn input(&self) -> Input<'_> {
        Input {
            options: Options {
                preference_policy: PreferencePolicy::Respect,
                min_values_policy: MinValuesPolicy::Strict,
                reserved: Some(ReservedOfferingMode::Strict),
                optimize: Optimize::Upstream,
                effort: Effort::Best,
                preference_worth: model::snapshot::Settings::preference_worth(),
                well_known_labels: &[],
                reservation_id_label: "",
            },
            pods: self.pods.iter().collect(),
            moved: Vec::new(),
            pools: self
                .pools
                .iter()
                .map(|(name, requirements)| Pool {
                    name,
                    labels: [(labels::NODE_POOL.to_owned(), name.0.clone())].into(),
                    requirements,
                    taints: &[],
                    types: &self.types,
                    surcharge: NanosPerHour(0),
                    weight: 0,
                    remaining: Resources::default(),
                })
                .collect(),
            nodes: Vec::new(),
            hosts: Vec::new(),
            daemons: Vec::new(),
            namespaces: &[],
            storage: &self.storage,
            devices: None,
        }
    }
}

fn instance_type(family: i64, size: i64) -> InstanceType {
    let name = format!("f{family}.{}xlarge", 1 << size);
    let arch = if family % 2 == 0 { ARCHS[0] } else { ARCHS[1] };
    let cpu = 4_000 << size;
    let memory = cpu * 1_000_000 * (2 + family % 7);
    let labels: BTreeMap<String, String> = [
        (labels::INSTANCE_TYPE, name.as_str()),
        (labels::ARCH, arch),
        (labels::OS, "linux"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let mut requirements = Requirements::from_labels(&labels);
    let values = |values: &[&str]| -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    };
    requirements.add(Requirement::new(labels::ZONE, Operator::In, values(&ZONES)));
    let capacity_types = [CapacityType::Spot, CapacityType::OnDemand];
    requirements.add(Requirement::new(
        labels::CAPACITY_TYPE,
        Operator::In,
        capacity_types.map(|capacity_type| capacity_type.to_string()),
    ));
    let offerings = capacity_types.into_iter().flat_map(|capacity_type| {
        let discount = if capacity_type == CapacityType::Spot {
            3
        } else {
            1
        };
        ZONES.map(|zone| Offering {
            capacity_type,
            zone: zone.to_owned(),
            zone_id: zone.to_owned(),
            price: NanosPerHour((cpu * 50_000 + family * 1_000_003) / discount),
            available: true,
            reservation: None,
            requirements: Requirements::from_labels(&BTreeMap::from([
                (labels::ZONE.to_owned(), zone.to_owned()),
                (labels::CAPACITY_TYPE.to_owned(), capacity_type.to_string()),
            ])),
            capacity_override: None,
            overhead_override: None,
        })
    });
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name,
        requirements,
        capacity: [("cpu", cpu), ("memory", memory), ("pods", 110)].into(),
        overhead: Overhead {
            kube_reserved: [("cpu", 100)].into(),
            ..Overhead::default()
        },
        offerings: offerings.collect(),
    }
}

fn pod(n: i64) -> Pod {
    let spec = n % POD_SPECS;
    let name = format!("pod-{n:04}");
    let app: BTreeMap<String, String> = [("app".to_owned(), format!("app-{spec}"))].into();
    let mut pod = Pod {
        key: PodKey::new("default", name.as_str()),
        uid: name.as_str().into(),
        unschedulable: true,
        ..Pod::default()
    };
    pod.labels = app.clone();
    pod.requests = [
        ("cpu", 100 + 150 * (spec % 11)),
        ("memory", 128_000_000 * (1 + spec % 13)),
        ("pods", 1),
    ]
    .into();
    if spec % 2 == 0 {
        let arch = if spec % 4 == 0 { ARCHS[0] } else { ARCHS[1] };
        pod.node_selector
            .insert(labels::ARCH.to_owned(), arch.to_owned());
    }
    if spec % 3 == 0 {
        pod.topology_spread.push(TopologySpread {
            topology_key: labels::ZONE.to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(LabelSelector {
                match_labels: app,
                ..LabelSelector::default()
            }),
            min_domains: None,
            node_affinity_policy: None,
            node_taints_policy: None,
            match_label_keys: Vec::new(),
        });
    }
    pod
}

/// Measures a loop with empty caches, and with caches filled by an earlier run.
fn measure<'a>(
    criterion: &mut Criterion,
    input: &'a Input<'a>,
    name: &str,
    work: fn(&mut InnerLoops<'a>) -> usize,
) {
    let mut group = criterion.benchmark_group(name);
    group.bench_function("first", |bencher| {
        let set_up = || InnerLoops::new(input);
        // Returning the fixture excludes its drop from the measured time.
        let work = |mut loops| (work(&mut loops), loops);
        bencher.iter_batched(set_up, work, BatchSize::LargeInput);
    });
    group.bench_function("again", |bencher| {
        let mut loops = InnerLoops::new(input);
        bencher.iter(|| work(&mut loops));
    });
    group.finish();
}

fn inner_loops(criterion: &mut Criterion) {
    let problem = SchedulingProblem::new();
    let input = problem.input();
    measure(criterion, &input, "requirements", InnerLoops::narrow);
    measure(
        criterion,
        &input,
        "instance types",
        InnerLoops::filter_types,
    );
    measure(
        criterion,
        &input,
        "topology domains",
        InnerLoops::choose_domains,
    );
    assert!(solve(&input).unplaced.is_empty());
    criterion.bench_function("solve 1000 pods", |bencher| {
        bencher.iter(|| solve(black_box(&input)));
    });
}

criterion_group!(benches, inner_loops);
criterion_main!(benches);
