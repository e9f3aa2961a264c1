//! Tests of the source that results from one mutant.

use super::*;
use crate::{Position, Span};

/// Source with mutant number 7 at the mark, without the markers of the switch.
fn rewritten(genre: &str, marked: &str, replacement: &str) -> String {
    let before = marked.split('»').next().unwrap();
    let start = Position {
        line: before.matches('\n').count() + 1,
        column: before
            .chars()
            .rev()
            .take_while(|character| *character != '\n')
            .count()
            + 1,
    };
    let mutant = Mutant {
        number: 7,
        file: "lib.rs".into(),
        genre: genre.to_owned(),
        replacement: replacement.to_owned(),
        span: Span { start },
    };
    let rewrite = rewrite(&marked.replace('»', ""), &[mutant]).unwrap();
    if !rewrite.unviable.is_empty() {
        return "unviable".to_owned();
    }
    assert!(rewrite.apart.is_empty());
    let marks = ["/*[7*/", "/*<7*/", "/*>*/", "/*]*/"];
    let text = marks
        .iter()
        .fold(rewrite.rewritten, |text, mark| text.replace(mark, ""));
    text.replace(&format!("{ON}(7)"), "ON")
}

#[test]
fn function_returns_the_mutated_value_early() {
    assert_eq!(
        rewritten("FnValue", "fn f() -> u8 { »1 }", "0"),
        "fn f() -> u8 {if ON { return 0; } else {} 1 }"
    );
    assert_eq!(
        rewritten(
            "FnValue",
            "fn f() -> impl Iterator<Item = u8> { »once(1) }",
            "empty()"
        ),
        "fn f() -> impl Iterator<Item = u8> {let one: ::std::boxed::Box<dyn Iterator<Item = u8> + '_> = \
         if ON { ::std::boxed::Box::new(empty()) } else { ::std::boxed::Box::new({ once(1) }) }; one}"
    );
}

#[test]
fn mutated_operator_rewrites_its_whole_chain() {
    assert_eq!(
        rewritten("BinaryOperator", "fn f() { a »&& b && c }", "||"),
        "fn f() { (if ON { a || b && c } else { a && b && c }) }"
    );
    assert_eq!(
        rewritten("UnaryOperator", "fn f() { »!a && b }", ""),
        "fn f() { (if ON { a } else { !a }) && b }"
    );
}

#[test]
fn operators_of_a_let_chain_are_unviable() {
    let chain = "fn f() { if let Some(a) = b »&& c == d {} }";
    assert_eq!(rewritten("BinaryOperator", chain, "||"), "unviable");
    assert_eq!(
        rewritten(
            "BinaryOperator",
            "fn f() { if let Some(a) = b && c »== d {} }",
            "!="
        ),
        "fn f() { if let Some(a) = b && (if ON { c != d } else { c == d }) {} }"
    );
}

#[test]
fn arms_and_fields_are_switched_off() {
    assert_eq!(
        rewritten("MatchArm", "fn f() { match a { »1 => b, _ => c } }", ""),
        "fn f() { match a { 1 if !ON => b, _ => c } }"
    );
    assert_eq!(
        rewritten(
            "MatchArmGuard",
            "fn f() { match a { d if »d > 1 => b, _ => c } }",
            "true"
        ),
        "fn f() { match a { d if (if ON { true } else { d > 1 }) => b, _ => c } }"
    );
    assert_eq!(
        rewritten("StructField", "fn f() { A { »b: c, ..d } }", ""),
        "fn f() { A { b: (if ON { (d).b } else { c }), ..d } }"
    );
}
