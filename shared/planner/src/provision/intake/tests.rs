use super::*;

#[test]
fn a_label_key_is_a_name_with_a_domain_before_it_or_none() {
    let long = |length: usize| "a".repeat(length);
    let domain = |length: usize| {
        format!(
            "{}.{}/name",
            long(60),
            ["a"; 100].join(".").split_at(length - 61).0
        )
    };
    for good in [
        "a",
        "A_b.c-1",
        "example.com/name",
        "a1.b-c/D_e",
        &long(63),
        &domain(PREFIX_MAX - 1),
    ] {
        assert!(is_qualified_name(good), "{good}");
    }
    for bad in [
        "",
        "-a",
        "a-",
        "a b",
        "ä",
        "/name",
        "example.com/",
        "example..com/name",
        "Example.com/name",
        "exam_ple.com/name",
        "example.com/-name",
        "a/b/c",
        &long(64),
        &format!("{}/name", vec![long(60); 5].join(".")),
    ] {
        assert!(!is_qualified_name(bad), "{bad}");
    }
}

#[test]
fn a_label_value_may_be_empty_and_is_a_name_otherwise() {
    for (value, is_good) in [
        ("", true),
        ("a.b", true),
        ("-a", false),
        ("a_", false),
        ("a/b", false),
    ] {
        assert_eq!(is_label_value(value), is_good, "{value}");
    }
}
