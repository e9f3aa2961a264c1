use aws_rules::node_class::{ProfileAct, ProfileAnswer, ProfileMemory, ProfileSearch};
use serde_json::json;

use crate::world::node_class;

const FOUND: ProfileAnswer = ProfileAnswer::Found { role: None };

/// The acts that these answers lead to; profiles made by the search are shown as `own`.
fn acts(role: &str, memory: &mut ProfileMemory, answers: &[ProfileAnswer]) -> Vec<String> {
    let class = node_class(json!({ "spec": { "role": role } }));
    let mut search = ProfileSearch::new(&class, "demo", "us-east-1", memory);
    let mut acts = vec![search.next(ProfileAnswer::Done)];
    acts.extend(answers.iter().map(|answer| search.next(answer.clone())));
    let shown = |act: &ProfileAct| {
        let (word, profile) = match act {
            ProfileAct::Get { profile } => ("get", profile),
            ProfileAct::Create { profile } => ("create", profile),
            ProfileAct::RemoveRole { profile, .. } => ("remove role", profile),
            ProfileAct::AddRole { profile, .. } => ("add role", profile),
            ProfileAct::Delete { profile } => ("delete", profile),
            ProfileAct::Ready { profile } => ("ready", profile),
            ProfileAct::NoSuchRole { role } => return format!("no role {role}"),
        };
        let whose = if profile == "demo_profile" {
            "current"
        } else {
            "own"
        };
        format!("{word} {whose}")
    };
    acts.iter().map(shown).collect()
}

fn with_role(role: &str) -> ProfileAnswer {
    let role = Some(role.to_owned());
    ProfileAnswer::Found { role }
}

#[test]
fn profile_in_the_status_is_kept_while_it_has_the_role() {
    let memory = &mut ProfileMemory::default();
    let first = acts("team/node-role", memory, &[with_role("node-role")]);
    assert_eq!(first, ["get current", "ready current"]);
    let again = acts("team/node-role", memory, &[]);
    assert_eq!(again, ["ready current"], "what was seen is remembered");
}

#[test]
fn changed_role_gets_a_new_profile() {
    let memory = &mut ProfileMemory::default();
    let done = ProfileAnswer::Done;
    let answers = [
        with_role("old"),
        ProfileAnswer::NotFound,
        done.clone(),
        done.clone(),
    ];
    let expected = [
        "get current",
        "get own",
        "create own",
        "add role own",
        "ready own",
    ];
    assert_eq!(acts("new", memory, &answers), expected);
    let half_made = [with_role("old"), FOUND, done.clone()];
    let expected = ["get current", "get own", "add role own", "ready own"];
    assert_eq!(
        acts("newer", &mut ProfileMemory::default(), &half_made),
        expected
    );
    let taken = [with_role("old"), with_role("other"), done.clone(), done];
    let expected = [
        "get current",
        "get own",
        "remove role own",
        "add role own",
        "ready own",
    ];
    assert_eq!(
        acts("newest", &mut ProfileMemory::default(), &taken),
        expected
    );
}

#[test]
fn missing_role_leaves_no_profile_behind() {
    let memory = &mut ProfileMemory::default();
    let (done, missing) = (ProfileAnswer::Done, ProfileAnswer::NotFound);
    let answers = [
        missing.clone(),
        missing.clone(),
        done.clone(),
        ProfileAnswer::NoSuchRole,
        FOUND,
        done,
    ];
    let expected = [
        "get current",
        "get own",
        "create own",
        "add role own",
        "get own",
        "delete own",
        "no role nope",
    ];
    assert_eq!(acts("nope", memory, &answers), expected);
    let again = acts("nope", memory, &[missing.clone(), missing]);
    assert_eq!(
        again,
        ["get current", "get own", "no role nope"],
        "nothing is made for it"
    );
}
