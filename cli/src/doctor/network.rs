//! Network of the cluster, as far as its objects show it.

use serde_json::Value;

use super::pools::{any_windows, requirement};
use crate::{
    finding::Finding,
    objects::{Objects, short_name, text},
};

pub(super) fn checks(objects: &Objects) -> Vec<Finding> {
    vec![
        windows_addresses(objects),
        windows_names(objects),
        no_cni(objects),
        old_cni(objects),
        more_pods_than_addresses(objects),
        ipv6(objects),
    ]
}

/// DaemonSet of the VPC CNI.
const VPC_CNI: &str = "aws-node";

fn named<'a>(objects: &'a Objects, kind: &'a str, name: &str) -> Option<&'a Value> {
    let mut all = objects.of_kind(kind);
    all.find(|object| text(object, "/metadata/name") == name)
}

fn windows_addresses(objects: &Objects) -> Finding {
    let map = named(objects, "ConfigMap", "amazon-vpc-cni");
    let on = map.is_some_and(|map| text(map, "/data/enable-windows-ipam") == "true");
    let found = any_windows(objects) && !on;
    Finding::new(
        "19. Windows nodes whose pods get no addresses",
        found
            .then(|| "ConfigMap kube-system/amazon-vpc-cni".to_owned())
            .into_iter()
            .collect(),
        "set enable-windows-ipam: \"true\" there",
    )
}

/// Windows nodes without DNS, because aws-auth does not map their role to a group they need; access entries are not visible here.
fn windows_names(objects: &Objects) -> Finding {
    let map = named(objects, "ConfigMap", "aws-auth");
    let lacks = |map: &&Value| !text(map, "/data/mapRoles").contains("eks:kube-proxy-windows");
    let windows = any_windows(objects);
    Finding::new(
        "21. Windows nodes without DNS",
        map.filter(lacks)
            .filter(|_| windows)
            .map(short_name)
            .into_iter()
            .collect(),
        "add the group eks:kube-proxy-windows to the node role in aws-auth, or give it an access entry of type EC2_WINDOWS",
    )
}

/// No network plugin. Other plugins than the VPC CNI are recognized by the name of their node agent.
fn no_cni(objects: &Objects) -> Finding {
    const OTHERS: [&str; 4] = ["cilium", "calico", "weave", "flannel"];
    let sets: Vec<&Value> = objects.of_kind("DaemonSet").collect();
    let runs = |set: &&Value| {
        let name = text(set, "/metadata/name");
        name == VPC_CNI || OTHERS.iter().any(|plugin| name.contains(plugin))
    };
    let missing = !sets.is_empty() && !sets.iter().any(runs);
    Finding::new(
        "30. no network plugin runs, so that nodes stay NotReady",
        missing
            .then(|| "DaemonSet kube-system/aws-node".to_owned())
            .into_iter()
            .collect(),
        "install the VPC CNI: aws eks create-addon --addon-name vpc-cni --cluster-name <cluster>",
    )
}

/// A VPC CNI that is older than an instance type: its table of types dates from its release.
fn old_cni(objects: &Objects) -> Finding {
    const OLDEST: (u64, u64) = (1, 18);
    let image = |set: &Value| {
        let containers = set.pointer("/spec/template/spec/containers")?.as_array()?;
        let mut images = containers.iter().map(|container| text(container, "/image"));
        let image = images.find(|image| image.contains("amazon-k8s-cni:"))?;
        let (_, tag) = image.rsplit_once(':')?;
        let mut parts = tag.trim_start_matches('v').split('.');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let version = (number()?, number()?);
        (version < OLDEST).then(|| tag.to_owned())
    };
    let old = named(objects, "DaemonSet", VPC_CNI).and_then(image);
    Finding::new(
        "31. a VPC CNI from before v1.18, which does not know newer instance types",
        old.map(|tag| format!("DaemonSet kube-system/{VPC_CNI}: {tag}"))
            .into_iter()
            .collect(),
        "aws eks update-addon --addon-name vpc-cni --cluster-name <cluster>",
    )
}

/// Pods that exceed the addresses: without prefix delegation a pod takes an address of a network interface, of which small types have few.
fn more_pods_than_addresses(objects: &Objects) -> Finding {
    let cni = named(objects, "DaemonSet", VPC_CNI);
    let delegates = |set: &Value| {
        let containers = set.pointer("/spec/template/spec/containers");
        let containers = containers.and_then(Value::as_array).into_iter().flatten();
        let variables = containers
            .filter_map(|container| container.get("env")?.as_array())
            .flatten();
        let mut on =
            variables.filter(|variable| text(variable, "/name") == "ENABLE_PREFIX_DELEGATION");
        on.any(|variable| text(variable, "/value") == "true")
    };
    let short = cni.is_some_and(|set| !delegates(set));
    let classes = objects.of_kind("EC2NodeClass").filter_map(|class| {
        let most = class.pointer("/spec/kubelet/maxPods")?.as_u64()?;
        Some(format!("{}: {most} pods", short_name(class)))
    });
    Finding::new(
        "16. EC2NodeClasses that say how many pods a node takes, whatever addresses its type has",
        classes.filter(|_| short).collect(),
        "leave maxPods out, or switch on prefix delegation: kubectl -n kube-system set env ds aws-node \
         ENABLE_PREFIX_DELEGATION=true",
    )
}

fn ipv6(objects: &Objects) -> Finding {
    const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    let dns = named(objects, "Service", "kube-dns");
    let is_ipv6 = dns.is_some_and(|dns| text(dns, "/spec/clusterIP").contains(':'));
    let on_nitro = |pool: &&Value| {
        let values = requirement(pool, HYPERVISOR, "In");
        values.is_some_and(|values| values.iter().all(|value| *value == "nitro"))
    };
    let pools = objects.of_kind("NodePool").filter(|pool| !on_nitro(pool));
    Finding::new(
        "40. NodePools of an IPv6 cluster that allow types without it",
        pools.filter(|_| is_ipv6).map(short_name).collect(),
        "require karpenter.k8s.aws/instance-hypervisor In [nitro]",
    )
}
