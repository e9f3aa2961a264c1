use model::journal::Subject;

/// Subjects of a command: the NodeClaims and nodes that it removes, and the pods that move.
pub(crate) fn subjects(command: &planner::Command) -> Vec<Subject> {
    let claims = command.targets();
    let claims = claims.map(|target| Subject::NodeClaim(target.name.clone()));
    let nodes = command.nodes.iter();
    let nodes = nodes.map(|name| Subject::Node(name.as_str().into()));
    let nominated = command.nominations.iter().map(|nomination| &nomination.pod);
    let launched = command
        .replacements
        .iter()
        .flat_map(|replacement| &replacement.pods);
    let pods = nominated
        .chain(launched)
        .map(|pod| Subject::Pod(pod.key.clone()));
    claims.chain(nodes).chain(pods).collect()
}
