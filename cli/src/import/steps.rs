//! Steps of the migration. They are printed for the user to carry out: each can be undone, and commands stand on lines of their own, ready
//! to be pasted into a shell.

use std::fmt::Write;

use serde_json::json;

use super::{
    group::{Group, Member, Source},
    names::{object_name, shell_word},
    tags,
};

pub(super) fn text(groups: &[Group]) -> String {
    let mut text = String::new();
    let movable: Vec<&Group> = groups.iter().filter(|group| group.is_imported).collect();
    if movable.is_empty() {
        return text;
    }
    text.push_str(
        "\nSteps of the migration, for one group after the other, with the manifests above saved as nodepools.yaml; `back:` undoes a step.\n",
    );
    for group in movable {
        for member in &group.members {
            let _ = write!(text, "\n{}", steps(group, member));
        }
    }
    text
}

/// Commands that differ between the sources.
struct Commands {
    /// Options of `kubectl get nodes` for the group's nodes, and the filter of the list.
    nodes: (String, String),
    /// Command that stops other controllers from changing the number of nodes.
    stop: String,
    start: String,
    shrink: String,
    grow: String,
}

fn steps(group: &Group, member: &Member) -> String {
    let Commands {
        nodes: (options, filter),
        stop,
        start,
        shrink,
        grow,
    } = match group.source {
        Source::Asg => of_auto_scaling_group(member),
        Source::Mng => of_managed_node_group(group, member),
    };
    // A tenth, at least one.
    let nodes = group.unit.nodes(member.desired);
    let tenth = match nodes.filter(|_| group.unit.is_uniform()) {
        Some(nodes) => ((nodes.max(1) + 9) / 10).to_string(),
        None => "$(( ($(nodes false | wc -l) + 9) / 10 ))".to_owned(),
    };
    format!(
        "{name}:
  1. Apply the manifests while the cluster is registered in mode shadow, and compare what would be launched.
     kubectl apply -f nodepools.yaml
     whittle plan --context \"$(kubectl config current-context)\"
     back: kubectl delete nodepool,ec2nodeclass {object}
  2. {stop}
     back: {start}
  3. Cordon a tenth of its nodes; later a quarter at a time.
     nodes() {{ kubectl get nodes --field-selector \"spec.unschedulable=$1\" {options}{filter}; }}
     nodes false | head -n {tenth} | xargs kubectl cordon
     back: nodes true | xargs kubectl uncordon
  4. Move pods off them, under PodDisruptionBudgets.
     nodes true | xargs -n 1 kubectl drain --ignore-daemonsets --delete-emptydir-data
     back: none is needed: pods run elsewhere
  5. Go on when no pod is pending, and go back to 3 until no node is left.
     kubectl get pods --all-namespaces --field-selector status.phase=Pending
  6. {shrink}
     back: {grow}
",
        name = member.name,
        object = object_name(&group.name),
    )
}

const AUTOSCALER: &str =
    "kubectl scale deployment cluster-autoscaler --namespace kube-system --replicas";

fn of_auto_scaling_group(member: &Member) -> Commands {
    let name = shell_word(&member.name);
    let of_group = |command: &str, rest: &str| {
        format!("aws autoscaling {command} --auto-scaling-group-name {name} {rest}")
    };
    let processes = "--scaling-processes AZRebalance";
    let mut stop = "Stop scaling of the group.".to_owned();
    let mut start: String;
    if let Some((value, propagates)) = &member.autoscaler_tag {
        let tag = json!([{
            "ResourceId": member.name, "ResourceType": "auto-scaling-group", "Key": tags::ENABLED, "Value": value,
            "PropagateAtLaunch": propagates,
        }]);
        let tag = shell_word(&tag.to_string());
        let _ = write!(stop, "\n     aws autoscaling delete-tags --tags {tag}");
        start = format!("aws autoscaling create-or-update-tags --tags {tag}\n     ");
    } else {
        let _ = write!(
            stop,
            " Stop Cluster Autoscaler, if it knows the group by its name and this is its last one.\n     {AUTOSCALER}=0"
        );
        start = format!("{AUTOSCALER}=1\n     ");
    }
    let _ = write!(stop, "\n     {}", of_group("suspend-processes", processes));
    start.push_str(&of_group("resume-processes", processes));
    let instances = "--query 'AutoScalingGroups[].Instances[].[InstanceId]' --output text";
    Commands {
        // Nodes have the ids of their instances at the end of their provider ids.
        nodes: (
            "--no-headers --output custom-columns=NAME:.metadata.name,ID:.spec.providerID"
                .to_owned(),
            format!(
                " | grep -Ff <(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names {name} {instances}) | \
                 awk '{{print $1}}'"
            ),
        ),
        stop,
        start,
        shrink: format!(
            "Let the group end its instances.\n     {}",
            of_group(
                "update-auto-scaling-group",
                "--min-size 0 --desired-capacity 0"
            )
        ),
        grow: of_group(
            "update-auto-scaling-group",
            &format!(
                "--min-size {} --desired-capacity {}",
                member.min, member.desired
            ),
        ),
    }
}

fn of_managed_node_group(group: &Group, member: &Member) -> Commands {
    let cluster = group.clusters.first().map_or("<cluster>", String::as_str);
    let scale = |least: i64, desired: i64| {
        format!(
            "aws eks update-nodegroup-config --cluster-name {} --nodegroup-name {} --scaling-config minSize={least},desiredSize={desired}",
            shell_word(cluster),
            shell_word(&member.name),
        )
    };
    Commands {
        nodes: (
            format!(
                "--selector {} --output name",
                shell_word(&format!("eks.amazonaws.com/nodegroup={}", member.name))
            ),
            String::new(),
        ),
        stop: format!(
            "Stop Cluster Autoscaler, if it runs and this is its last group.\n     {AUTOSCALER}=0"
        ),
        start: format!("{AUTOSCALER}=1"),
        shrink: format!("Let the group end its instances.\n     {}", scale(0, 0)),
        grow: scale(member.min, member.desired),
    }
}
