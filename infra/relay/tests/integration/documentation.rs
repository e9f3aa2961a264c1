//! The documentation of metrics against the source: every served series is documented, and no series is documented as missing
//! that is served.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const NOT_HERE: &str = "### Series of Karpenter that are not here";
const END: &str = "### How it is kept";

/// The text of all source files in a directory, except tests.
fn source(directory: &Path) -> String {
    let mut text = String::new();
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().collect();
    entries.sort_by_key(|entry| entry.as_ref().unwrap().path());
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &source(&path);
        // Help texts name series of other components.
        } else if path
            .file_stem()
            .is_some_and(|stem| stem != "tests" && stem != "help")
        {
            let of_file = fs::read_to_string(&path).unwrap();
            text += of_file.split("#[cfg(test)]\nmod tests {").next().unwrap();
        }
    }
    text
}

/// Names of Karpenter's metrics in a text. `{kind}` and lists in braces are expanded for each kind of object.
fn names(text: &str) -> BTreeSet<String> {
    const KINDS: &str = "{nodeclaim,nodepool,node,ec2nodeclass,capacitybuffer}";
    let text = text.replace("operator_{name}_", "operator_{kind}_");
    let text = text.replace("operator_{}_", "operator_{kind}_");
    let text = text.replace(&format!("operator_{KINDS}_"), "operator_{kind}_");
    let text = text.replace(
        "operator_{nodepool,node,ec2nodeclass,capacitybuffer}_",
        "operator_{kind}_",
    );
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_{}*".contains(letter);
    let words = text.split(|letter: char| !is_letter(letter));
    let is_name = |word: &&str| {
        ["karpenter_", "operator_"]
            .iter()
            .any(|prefix| word.len() > prefix.len() && word.starts_with(prefix))
    };
    words.filter(is_name).map(str::to_owned).collect()
}

/// The documented series, and the first column of the table of missing ones.
fn page() -> (String, String) {
    let page = fs::read_to_string(format!("{ROOT}/docs/events-and-metrics.md")).unwrap();
    let (here, rest) = page.split_once(NOT_HERE).unwrap();
    let (table, _) = rest.split_once(END).unwrap();
    let rows = table.lines().filter_map(|row| row.strip_prefix("| "));
    let series = rows.filter_map(|row| Some(row.split_once(" | ")?.0));
    (here.to_owned(), series.collect::<Vec<_>>().join("\n"))
}

fn served() -> BTreeSet<String> {
    let turns = source(Path::new(&format!("{ROOT}/shared/turns/src")));
    let relay = source(Path::new(&format!("{ROOT}/infra/relay/src")));
    names(&(turns + &relay))
}

#[test]
fn served_and_documented_series_are_the_same() {
    let (here, _) = page();
    let documented = names(&here);
    let served = served();
    assert!(served.len() > 60, "{served:?}");
    let missing: Vec<_> = served.difference(&documented).collect();
    assert!(missing.is_empty(), "not in the page: {missing:?}");
    // Documented as always zero.
    let never = "karpenter_voluntary_disruption_consolidation_timeouts_total";
    let mut only_documented = documented.difference(&served);
    let only = only_documented.find(|name| *name != never);
    assert_eq!(only, None, "nothing serves it");
}

#[test]
fn series_documented_as_missing_are_not_served() {
    let (_, not_here) = page();
    // Only some methods of these metrics are missing.
    let not_here = not_here.replace("`karpenter_cloudprovider_errors_total`", "");
    let not_here = not_here.replace("`karpenter_cloudprovider_duration_seconds`", "");
    let absent = names(&not_here);
    assert!(absent.len() > 5, "{absent:?}");
    for name in served() {
        let is_absent = |absent: &&String| match absent.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => **absent == name,
        };
        assert_eq!(absent.iter().find(is_absent), None, "{name} is served");
    }
}
