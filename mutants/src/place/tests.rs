//! What becomes of a source with one mutant in it.

use super::*;
use crate::{Position, Span};

/// What becomes of a source when the mutant that begins at this mark is put in, as number 7, without marks.
fn placed(genre: &str, marked: &str, replacement: &str) -> String {
    let before = marked.split('»').next().unwrap();
    let start = Position {
        line: before.matches('\n').count() + 1,
        column: before.chars().rev().take_while(|one| *one != '\n').count() + 1,
    };
    let mutant = Mutant {
        number: 7,
        file: "lib.rs".into(),
        genre: genre.to_owned(),
        replacement: replacement.to_owned(),
        span: Span { start },
    };
    let all = all(&marked.replace('»', ""), &[mutant]).unwrap();
    if !all.unviable.is_empty() {
        return "unviable".to_owned();
    }
    assert!(all.apart.is_empty());
    let marks = ["/*[7*/", "/*<7*/", "/*>*/", "/*]*/"];
    let text = marks
        .iter()
        .fold(all.rewritten, |text, mark| text.replace(mark, ""));
    text.replace(&format!("{ON}(7)"), "ON")
}

#[test]
fn a_function_begins_with_another_value() {
    assert_eq!(
        placed("FnValue", "fn f() -> u8 { »1 }", "0"),
        "fn f() -> u8 {if ON { return 0; } else {} 1 }"
    );
    assert_eq!(
        placed(
            "FnValue",
            "fn f() -> impl Iterator<Item = u8> { »once(1) }",
            "empty()"
        ),
        "fn f() -> impl Iterator<Item = u8> {let one: ::std::boxed::Box<dyn Iterator<Item = u8> + '_> = \
         if ON { ::std::boxed::Box::new(empty()) } else { ::std::boxed::Box::new({ once(1) }) }; one}"
    );
}

#[test]
fn an_operator_binds_in_the_chain_it_is_written_into() {
    assert_eq!(
        placed("BinaryOperator", "fn f() { a »&& b && c }", "||"),
        "fn f() { (if ON { a || b && c } else { a && b && c }) }"
    );
    assert_eq!(
        placed("UnaryOperator", "fn f() { »!a && b }", ""),
        "fn f() { (if ON { a } else { !a }) && b }"
    );
}

#[test]
fn a_chain_that_binds_a_name_takes_no_other_operator() {
    let chain = "fn f() { if let Some(a) = b »&& c == d {} }";
    assert_eq!(placed("BinaryOperator", chain, "||"), "unviable");
    assert_eq!(
        placed(
            "BinaryOperator",
            "fn f() { if let Some(a) = b && c »== d {} }",
            "!="
        ),
        "fn f() { if let Some(a) = b && (if ON { c != d } else { c == d }) {} }"
    );
}

#[test]
fn arms_and_fields_are_left_out() {
    assert_eq!(
        placed("MatchArm", "fn f() { match a { »1 => b, _ => c } }", ""),
        "fn f() { match a { 1 if !ON => b, _ => c } }"
    );
    assert_eq!(
        placed(
            "MatchArmGuard",
            "fn f() { match a { d if »d > 1 => b, _ => c } }",
            "true"
        ),
        "fn f() { match a { d if (if ON { true } else { d > 1 }) => b, _ => c } }"
    );
    assert_eq!(
        placed("StructField", "fn f() { A { »b: c, ..d } }", ""),
        "fn f() { A { b: (if ON { (d).b } else { c }), ..d } }"
    );
}
