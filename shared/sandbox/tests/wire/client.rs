use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Event, Node, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, ResourceExt,
    api::{
        DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
        WatchParams,
    },
    core::PartialObjectMeta,
    runtime::{watcher, watcher::Event as Seen},
};
use sandbox::{SandboxOptions, WorldOptions, server::WriteOptions};
use serde_json::json;

use crate::support::{Fixture, eventually};

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("kind".to_owned(), "test".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn pages_of_a_list_are_consistent() {
    let fixture = Fixture::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client().await);
    for index in 0..5 {
        maps.create(&PostParams::default(), &config_map(&format!("map-{index}")))
            .await
            .unwrap();
    }
    let page = ListParams::default().limit(2);
    let first = maps.list(&page).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    maps.delete("map-3", &DeleteParams::default())
        .await
        .unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = maps
        .list(&page.clone().continue_token(&token))
        .await
        .unwrap();
    let names: Vec<String> = second.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["map-2", "map-3"], "as it was when the list began");
    assert_eq!(
        first.metadata.resource_version,
        second.metadata.resource_version
    );
    fixture
        .sandbox
        .with(|world, _| world.server.store.compact());
    let error = maps.list(&page.continue_token(&token)).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 410),
        "{error}"
    );
}

#[tokio::test]
async fn watch_continues_from_the_list_revision() {
    let fixture = Fixture::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client().await);
    maps.create(&PostParams::default(), &config_map("before"))
        .await
        .unwrap();
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let parameters = WatchParams::default().labels("kind=test").timeout(20);
    let mut watch = maps.watch(&parameters, &version).await.unwrap().boxed();
    maps.create(&PostParams::default(), &config_map("after"))
        .await
        .unwrap();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"kind": "other"}}}));
    maps.patch("before", &PatchParams::default(), &patch)
        .await
        .unwrap();
    maps.delete("after", &DeleteParams::default())
        .await
        .unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match watch.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(map) => format!("added {}", map.name_any()),
            WatchEvent::Modified(map) => format!("modified {}", map.name_any()),
            WatchEvent::Deleted(map) => format!("deleted {}", map.name_any()),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error}"),
        });
    }
    // An object that the selector no longer matches is deleted for this watcher.
    assert_eq!(seen, ["added after", "deleted before", "deleted after"]);
}

#[tokio::test]
async fn bookmarks_advance_the_revision_of_an_idle_watch() {
    let options = SandboxOptions {
        bookmark_interval: Duration::from_millis(100),
        ..SandboxOptions::default()
    };
    let fixture = Fixture::start_with(options).await;
    let client = fixture.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let mut watch = nodes
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let written = maps
        .create(&PostParams::default(), &config_map("elsewhere"))
        .await
        .unwrap();
    let written: u64 = written.resource_version().unwrap().parse().unwrap();
    loop {
        let event = watch.try_next().await.unwrap().unwrap();
        let WatchEvent::Bookmark(bookmark) = event else {
            panic!("{event:?}");
        };
        let seen: u64 = bookmark.metadata.resource_version.parse().unwrap();
        if seen >= written {
            break;
        }
    }
}

#[tokio::test]
async fn watch_from_a_compacted_revision_expires() {
    let fixture = Fixture::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client().await);
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    fixture
        .sandbox
        .with(|world, _| world.server.store.compact());
    let mut watch = maps
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap()
        .boxed();
    match watch.try_next().await.unwrap().unwrap() {
        WatchEvent::Error(status) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"))
        }
        event => panic!("{event:?}"),
    }
    assert!(watch.try_next().await.unwrap().is_none(), "the stream ends");
}

#[tokio::test]
async fn watch_that_falls_behind_the_history_ends_without_an_error() {
    let options = SandboxOptions {
        world: WorldOptions {
            history_limit: 16,
            ..WorldOptions::default()
        },
        ..SandboxOptions::default()
    };
    let fixture = Fixture::start_with(options).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client().await);
    let mut watch = maps
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    maps.create(&PostParams::default(), &config_map("first"))
        .await
        .unwrap();
    assert!(matches!(
        watch.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    fixture.sandbox.with(|world, now| {
        let kind = world
            .server
            .kinds
            .by_kind("v1", "ConfigMap")
            .unwrap()
            .clone();
        for index in 0..17 {
            let map = json!({"metadata": {"name": format!("map-{index}")}});
            let options = WriteOptions::default();
            world
                .server
                .create(&kind, "default", map, &options, now)
                .unwrap();
        }
    });
    assert!(watch.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn reflectors_stay_current_in_every_mode() {
    let fixture = Fixture::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client().await);
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut events = watcher(maps.clone(), config).boxed();
        let mut started = Vec::new();
        loop {
            match events.try_next().await.unwrap().unwrap() {
                Seen::Init => {}
                Seen::InitApply(map) => started.push(map.name_any()),
                Seen::InitDone => break,
                event => panic!("{event:?}"),
            }
        }
        assert!(started.contains(&"a".to_owned()), "{started:?}");
        // An end of stream does not cause a new list.
        fixture.sandbox.end_watches();
        let name = format!("later-{}", started.len());
        maps.create(&PostParams::default(), &config_map(&name))
            .await
            .unwrap();
        match events.try_next().await.unwrap().unwrap() {
            Seen::Apply(map) => assert_eq!(map.name_any(), name),
            event => panic!("{event:?}"),
        }
    }
}

#[tokio::test]
async fn metadata_can_be_requested_alone() {
    let fixture = Fixture::start().await;
    let client = fixture.client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let list = maps.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].labels()["kind"], "test");
    let maps: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client);
    let mut events = watcher(maps, watcher::Config::default()).boxed();
    loop {
        match events.try_next().await.unwrap().unwrap() {
            Seen::InitApply(map) => {
                assert_eq!(map.name_any(), "a");
                break;
            }
            Seen::Init => {}
            event => panic!("{event:?}"),
        }
    }
}

#[tokio::test]
async fn server_side_apply_creates_owns_and_conflicts() {
    let fixture = Fixture::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client().await);
    let config = |value: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value},
        }))
    };
    let one = PatchParams::apply("one");
    let other = PatchParams::apply("other");
    maps.patch("a", &one, &config("1")).await.unwrap();
    let error = maps.patch("a", &other, &config("2")).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 409),
        "{error}"
    );
    let taken = maps
        .patch("a", &other.clone().force(), &config("2"))
        .await
        .unwrap();
    assert_eq!(taken.data.unwrap()["key"], "2");
    let again = maps.patch("a", &other, &config("2")).await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        taken.metadata.resource_version
    );
}

#[tokio::test]
async fn pods_are_evicted_and_deleted_under_preconditions() {
    let fixture = Fixture::start().await;
    fixture.join_node("node-a");
    let client = fixture.client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", "image": "a"}], "terminationGracePeriodSeconds": 0},
    }))
    .unwrap();
    let created = pods.create(&PostParams::default(), &pod).await.unwrap();
    let phase = async |wanted: &str| {
        let pod = pods.get("a").await.unwrap();
        pod.status.unwrap().phase.as_deref() == Some(wanted)
    };
    eventually("the pod runs", || phase("Running")).await;
    let of_another = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some("another".to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let evict = async |uid: &str| {
        // Written by hand: kube-rs writes `delete_options`, which servers ignore.
        let eviction = json!({
            "metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let request = http::Request::post("/api/v1/namespaces/default/pods/a/eviction")
            .header("Content-Type", "application/json")
            .body(serde_json::to_vec(&eviction).unwrap());
        client.request::<serde_json::Value>(request.unwrap()).await
    };
    for error in [
        pods.delete("a", &of_another).await.unwrap_err(),
        evict("another").await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, kube::Error::Api(status) if status.code == 409),
            "{error}"
        );
    }
    evict(&created.uid().unwrap()).await.unwrap();
    eventually("the pod is gone", async || {
        pods.get_opt("a").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn events_are_shared_by_both_groups() {
    use kube::runtime::events::{EventType, Recorder, Reporter};
    let fixture = Fixture::start().await;
    let client = fixture.client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = maps
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let recorder = Recorder::new(client.clone(), Reporter::from("whittle"));
    let event = kube::runtime::events::Event {
        type_: EventType::Warning,
        reason: "NoCapacity".to_owned(),
        note: Some("nothing left".to_owned()),
        action: "Launch".to_owned(),
        secondary: None,
    };
    let reference = kube::Resource::object_ref(&map, &());
    recorder.publish(&event, &reference).await.unwrap();
    let events: Api<Event> = Api::default_namespaced(client);
    let about = ListParams::default().fields("involvedObject.name=a,type=Warning");
    let found = events.list(&about).await.unwrap().items;
    assert_eq!(found[0].message.as_deref(), Some("nothing left"));
    assert_eq!(found[0].reporting_component.as_deref(), Some("whittle"));
}
