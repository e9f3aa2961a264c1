//! The move, step by step. It is printed, and people take the steps: each can be taken back.

use std::fmt::Write;

use super::group::{Group, Member, Source};

pub(super) fn text(groups: &[Group]) -> String {
    let mut text = String::new();
    let movable: Vec<&Group> = groups
        .iter()
        .filter(|group| group.refusals.is_empty())
        .collect();
    if movable.is_empty() {
        return text;
    }
    text.push_str("\nThe move, one group after the other; `back:` undoes a step.\n");
    for group in movable {
        for member in &group.members {
            let _ = write!(text, "\n{}", steps(group, member));
        }
    }
    text
}

fn steps(group: &Group, member: &Member) -> String {
    let name = &member.name;
    let cluster = group.clusters.first().map_or("<cluster>", String::as_str);
    let (selector, stop, start, shrink, grow) = match group.source {
        Source::Asg => (
            "<a label of this group's nodes>".to_owned(),
            format!(
                "aws autoscaling delete-tags --tags ResourceId={name},ResourceType=auto-scaling-group,Key=k8s.io/cluster-autoscaler/enabled\n     \
                 aws autoscaling suspend-processes --auto-scaling-group-name {name} --scaling-processes AZRebalance"
            ),
            format!(
                "aws autoscaling resume-processes --auto-scaling-group-name {name} --scaling-processes AZRebalance, and the tag again"
            ),
            format!("aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} --min-size 0 --desired-capacity 0"),
            format!(
                "aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} --min-size {} --desired-capacity {}",
                member.min, member.desired
            ),
        ),
        Source::Mng => (
            format!("eks.amazonaws.com/nodegroup={name}"),
            "kubectl scale deployment cluster-autoscaler --namespace kube-system --replicas=0, if it runs and this is its last group"
                .to_owned(),
            "kubectl scale deployment cluster-autoscaler --namespace kube-system --replicas=1".to_owned(),
            format!(
                "aws eks update-nodegroup-config --cluster-name {cluster} --nodegroup-name {name} --scaling-config minSize=0,desiredSize=0"
            ),
            format!(
                "aws eks update-nodegroup-config --cluster-name {cluster} --nodegroup-name {name} --scaling-config \
                 minSize={},desiredSize={}",
                member.min, member.desired
            ),
        ),
    };
    format!(
        "{name}:
  1. kubectl apply -f <the EC2NodeClass and the NodePool above>, while the cluster is registered in mode shadow; compare what
     `whittle plan --context <context>` would launch.
     back: kubectl delete nodepool,ec2nodeclass {}
  2. {stop}
     back: {start}
  3. Cordon a tenth of its nodes: kubectl cordon <node>; later a quarter at a time.
     kubectl get nodes --selector {selector}
     back: kubectl uncordon <node>
  4. Move pods off them, under PodDisruptionBudgets: kubectl drain <node> --ignore-daemonsets --delete-emptydir-data
     back: none is needed: pods run elsewhere
  5. kubectl get pods --all-namespaces --field-selector status.phase=Pending; go on when none is left, and go back to 3 until no node is
     left.
  6. {shrink}
     back: {grow}
",
        group.name
    )
}
