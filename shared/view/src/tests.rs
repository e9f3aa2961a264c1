use std::collections::BTreeMap;

use model::{
    ClusterName, PodKey,
    pod::{Pod, PodPhase, PodShape},
    view::ViewPointer,
};

use crate::{Pods, Publisher, View, ViewError, document};

const EPOCH: &str = "2026-01-01T00:00:00Z/relay-0";

fn cluster() -> ClusterName {
    "demo".into()
}

fn pod(name: &str, app: &str) -> Pod {
    let shape = PodShape {
        labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        annotations: BTreeMap::from([(
            "karpenter.sh/do-not-disrupt".to_owned(),
            "true".to_owned(),
        )]),
        ..PodShape::default()
    };
    Pod {
        key: PodKey::new("default", name),
        uid: format!("uid-of-{name}").into(),
        resource_version: "7".into(),
        node_name: Some("node-a".into()),
        phase: PodPhase::Running,
        ready: true,
        shape: shape.into(),
        ..Pod::default()
    }
}

/// A publisher with the objects that it has stored in its bucket.
struct PublisherBench {
    publisher: Publisher,
    bucket: BTreeMap<u64, Vec<u8>>,
}

impl PublisherBench {
    fn listed(pods: impl IntoIterator<Item = Pod>) -> Self {
        let mut publisher = Publisher::new(cluster(), EPOCH.into());
        publisher.begin_list();
        pods.into_iter().for_each(|pod| publisher.upsert(pod));
        publisher.end_list();
        let mut bench = Self {
            publisher,
            bucket: BTreeMap::new(),
        };
        bench.publish();
        bench
    }

    fn publish(&mut self) {
        let issue = self.publisher.issue().unwrap();
        self.bucket.insert(issue.version, issue.object);
        self.publisher.stored();
    }

    fn pointer(&self) -> ViewPointer {
        let (last, full) = self.publisher.latest().unwrap();
        ViewPointer {
            epoch: EPOCH.into(),
            version: last.version,
            full,
            digest: last.digest.clone(),
            at: jiff::Timestamp::UNIX_EPOCH,
            counters: BTreeMap::new(),
        }
    }

    /// Reads the view like a function without a cache.
    fn read(&self) -> Result<View, ViewError> {
        let pointer = self.pointer();
        let mut view = View::open(&cluster(), EPOCH, pointer.full, &self.bucket[&pointer.full])?;
        for version in pointer.full + 1..=pointer.version {
            view.follow(&cluster(), &self.bucket[&version])?;
        }
        view.is(&pointer)?;
        Ok(view)
    }
}

#[test]
fn published_pods_are_those_of_the_watch() {
    let pods = [pod("a", "web"), pod("b", "web"), pod("c", "api")];
    let bench = PublisherBench::listed(pods.clone());
    assert_eq!(bench.read().unwrap().pods(), pods);
}

#[test]
fn version_contains_changes_since_the_one_before() {
    let mut bench =
        PublisherBench::listed((0..50).map(|index| pod(&format!("pod-{index:02}"), "web")));
    let full = bench.bucket[&1].len();
    let mut moved = pod("pod-07", "web");
    moved.node_name = Some("node-b".into());
    bench.publisher.upsert(moved.clone());
    bench.publisher.upsert(pod("young", "batch"));
    bench.publisher.remove(&PodKey::new("default", "pod-00"));
    bench.publish();
    assert_eq!(bench.pointer().full, 1, "no full state for three pods");
    assert!(bench.bucket[&2].len() < full);
    let view = bench.read().unwrap();
    assert_eq!(view.len(), 50);
    assert!(view.pods().contains(&moved));
    assert!(view.pods().contains(&pod("young", "batch")));
}

#[test]
fn warm_function_reads_only_new_versions() {
    let mut bench = PublisherBench::listed([pod("a", "web")]);
    let mut warm = bench.read().unwrap();
    bench.publisher.upsert(pod("b", "web"));
    bench.publish();
    let pointer = bench.pointer();
    assert_eq!(warm.until(&pointer), Some(2..=2));
    warm.follow(&cluster(), &bench.bucket[&2]).unwrap();
    warm.is(&pointer).unwrap();
    assert_eq!(warm.pods(), [pod("a", "web"), pod("b", "web")]);
    let restarted = ViewPointer {
        epoch: "another".into(),
        ..pointer
    };
    assert_eq!(
        warm.until(&restarted),
        None,
        "another relay numbers its versions itself"
    );
}

#[test]
fn unchanged_pod_is_not_published_again() {
    let mut bench = PublisherBench::listed([pod("a", "web")]);
    bench.publisher.upsert(pod("a", "web"));
    let mut noisy = pod("a", "web");
    noisy
        .annotations
        .insert("cni.example/address".into(), "10.0.0.1".into());
    bench.publisher.upsert(noisy);
    assert!(
        !bench.publisher.is_due(),
        "annotations of others influence no decision"
    );
}

#[test]
fn list_after_a_gap_removes_unlisted_pods() {
    let mut bench = PublisherBench::listed([pod("a", "web"), pod("b", "web")]);
    bench.publisher.begin_list();
    bench.publisher.upsert(pod("b", "web"));
    bench.publisher.end_list();
    bench.publish();
    assert_eq!(bench.read().unwrap().pods(), [pod("b", "web")]);
}

#[test]
fn changes_of_an_unpublished_version_are_in_the_next_one() {
    let mut bench = PublisherBench::listed([pod("a", "web")]);
    bench.publisher.upsert(pod("b", "web"));
    let lost = bench.publisher.issue().unwrap();
    bench.publisher.give_up();
    bench.publisher.upsert(pod("c", "api"));
    bench.publish();
    assert_eq!(
        bench.pointer().version,
        lost.version,
        "it was never published"
    );
    assert_eq!(bench.read().unwrap().len(), 3);
}

#[test]
fn lost_full_state_is_followed_by_another() {
    let mut publisher = Publisher::new(cluster(), EPOCH.into());
    publisher.begin_list();
    publisher.upsert(pod("a", "web"));
    publisher.end_list();
    publisher.issue().unwrap();
    publisher.give_up();
    publisher.upsert(pod("b", "api"));
    let issue = publisher.issue().unwrap();
    let (header, _) = document::read(&issue.object).unwrap();
    assert_eq!((header.base, header.pods), (None, 2));
}

#[test]
fn chain_ends_in_a_full_state_before_it_is_too_long_to_read() {
    let mut bench = PublisherBench::listed([pod("a", "web")]);
    for version in 0..250_u64 {
        let mut changed = pod("a", "web");
        changed.resource_version = version.to_string();
        // Unused shapes are removed with each full state.
        changed.labels = BTreeMap::from([("version".to_owned(), version.to_string())]);
        bench.publisher.upsert(changed);
        bench.publish();
        let pointer = bench.pointer();
        assert!(pointer.version - pointer.full <= 100);
        bench.read().unwrap();
    }
}

#[test]
fn nothing_is_due_before_all_pods_were_listed() {
    let mut publisher = Publisher::new(cluster(), EPOCH.into());
    publisher.begin_list();
    publisher.upsert(pod("a", "web"));
    assert!(!publisher.is_due());
    publisher.end_list();
    assert!(publisher.is_due());
    let mut empty = Publisher::new(cluster(), EPOCH.into());
    empty.begin_list();
    empty.end_list();
    assert!(empty.is_due(), "an empty list is published, too");
}

#[test]
fn every_damage_of_a_version_is_found() {
    let mut bench = PublisherBench::listed([pod("a", "web")]);
    for name in ["b", "c"] {
        bench.publisher.upsert(pod(name, "web"));
        bench.publish();
    }
    let wrong = |damage: &dyn Fn(&mut PublisherBench)| {
        let mut damaged = PublisherBench {
            publisher: Publisher::new(cluster(), EPOCH.into()),
            bucket: bench.bucket.clone(),
        };
        damage(&mut damaged);
        let pointer = bench.pointer();
        let read = View::open(&cluster(), EPOCH, 1, &damaged.bucket[&1]).and_then(|mut view| {
            view.follow(&cluster(), &damaged.bucket[&2])?;
            view.follow(&cluster(), &damaged.bucket[&3])?;
            view.is(&pointer)
        });
        read.unwrap_err().to_string()
    };
    let message = wrong(&|bench| bench.bucket.get_mut(&2).unwrap().truncate(20));
    assert!(message.starts_with("version 2: "), "{message}");
    let message = wrong(&|bench| drop(bench.bucket.insert(2, b"garbage".to_vec())));
    assert!(message.starts_with("version 2: "), "{message}");
    let message = wrong(&|bench| drop(bench.bucket.insert(2, bench.bucket[&3].clone())));
    assert!(message.contains("has the contents of another"), "{message}");
    // Another relay of the same epoch, as if two ran: its versions do not continue these.
    let mut other = PublisherBench::listed([pod("x", "web")]);
    other.publisher.upsert(pod("y", "web"));
    other.publish();
    let object = other.bucket[&2].clone();
    let message = wrong(&|bench| drop(bench.bucket.insert(2, object.clone())));
    assert_eq!(message, "version 2 does not follow from the previous one");
    let message = View::open(&"another".into(), EPOCH, 1, &bench.bucket[&1]).unwrap_err();
    assert!(message.to_string().contains("of cluster demo"), "{message}");
}

#[test]
fn other_format_version_is_refused() {
    let later = zstd::encode_all(
        &br#"{"format":3,"cluster":"demo","epoch":"e","version":1,"base":null,"pods":0,"lines":0}"#
            [..],
        0,
    );
    let message = document::read(&later.unwrap()).unwrap_err();
    assert_eq!(message.to_string(), "its format is 3: expected 2");
}

#[test]
fn unused_shapes_are_removed() {
    let mut pods = Pods::default();
    for version in 0..5_000 {
        let mut changed = pod("a", "web");
        changed
            .labels
            .insert("version".to_owned(), version.to_string());
        pods.upsert(changed);
        pods.tidy();
        assert!(pods.shapes().len() <= 1_001);
    }
    assert_eq!(pods.len(), 1);
}
