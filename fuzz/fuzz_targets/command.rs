//! Fuzz target of the command line's inputs: arguments, and the files that commands read. The first line of an input
//! names its kind.

#![expect(clippy::expect_used, reason = "a failed round trip is a finding")]

use whittle::inputs;

/// Parses the rest of the text as the kind that the first line names.
///
/// # Panics
///
/// If output cannot be parsed again, or converting it again changes it.
pub(crate) fn line(text: &str) {
    let (what, text) = text.split_once('\n').unwrap_or((text, ""));
    match what {
        "arguments" => {
            inputs::arguments(text);
        }
        "convert" => assert_idempotent(&inputs::converted(text)),
        "kops" => {
            if let Ok(printed) = inputs::kops(text) {
                assert_idempotent(&printed);
            }
        }
        "asg" => imported(inputs::auto_scaling_groups, text),
        "mng" => imported(inputs::node_groups, text),
        "shell" => {
            if let Ok((printed, _steps)) = inputs::user_data(text) {
                assert_idempotent(&printed);
            }
        }
        "nth" => {
            let _entry = inputs::termination_handler(text);
        }
        "journal" => {
            let _record = inputs::record(text);
        }
        "case" => {
            if let Ok(snapshot) = inputs::case(text) {
                let packed = turns::journal::pack(snapshot).expect("what was read");
                let unpacked = turns::journal::unpack(&packed).expect("what was packed");
                let again = turns::journal::pack(unpacked).expect("what was read");
                assert!(again == packed, "packing an unpacked case changes it");
            }
        }
        _ => {}
    }
}

/// Imports node groups, and the versions of their launch templates after a line of three dashes.
fn imported(import: impl Fn(&str, Option<&str>) -> anyhow::Result<(String, String)>, text: &str) {
    let (groups, templates) = match text.split_once("\n---\n") {
        Some((groups, templates)) => (groups, Some(templates)),
        None => (text, None),
    };
    if let Ok((printed, _steps)) = import(groups, templates) {
        assert_idempotent(&printed);
    }
}

/// Asserts that converting the output again changes nothing.
fn assert_idempotent(printed: &str) {
    assert_eq!(inputs::converted(printed), printed);
}
