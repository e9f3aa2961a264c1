//! What people hand the command line: arguments, and the files that its commands read. The first line says which.

#![expect(
    clippy::expect_used,
    reason = "what cannot be read again is what is looked for"
)]

use whittle::inputs;

/// Reads the rest as what the first line names.
///
/// # Panics
///
/// If what is printed cannot be read, or is not finished.
pub(crate) fn line(text: &str) {
    let (what, text) = text.split_once('\n').unwrap_or((text, ""));
    match what {
        "arguments" => {
            inputs::arguments(text);
        }
        "convert" => is_finished(&inputs::converted(text)),
        "kops" => {
            if let Ok(printed) = inputs::kops(text) {
                is_finished(&printed);
            }
        }
        "asg" => imported(inputs::auto_scaling_groups, text),
        "mng" => imported(inputs::node_groups, text),
        "nth" => {
            let _entry = inputs::termination_handler(text);
        }
        "journal" => {
            let _told = inputs::record(text);
        }
        "case" => {
            if let Ok(snapshot) = inputs::case(text) {
                let packed = turns::journal::pack(snapshot).expect("what was read");
                let unpacked = turns::journal::unpack(&packed).expect("what was packed");
                let again = turns::journal::pack(unpacked).expect("what was read");
                assert!(again == packed, "what is kept of the case is another case");
            }
        }
        _ => {}
    }
}

/// Groups, and after a line of three dashes versions of their launch templates.
fn imported(import: impl Fn(&str, Option<&str>) -> anyhow::Result<(String, String)>, text: &str) {
    let (groups, templates) = match text.split_once("\n---\n") {
        Some((groups, templates)) => (groups, Some(templates)),
        None => (text, None),
    };
    if let Ok((printed, _steps)) = import(groups, templates) {
        is_finished(&printed);
    }
}

/// Nothing is left to convert.
fn is_finished(printed: &str) {
    assert_eq!(inputs::converted(printed), printed);
}
