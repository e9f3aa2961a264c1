use super::*;
use crate::fixtures;

/// Error about a requirement, without its label.
fn said(key: &str, operator: Operator, values: &[&str]) -> Option<String> {
    let snapshot = fixtures::snapshot();
    let said = PodValidation::new(&snapshot).invalid(&NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    })?;
    let (label, said) = said.split_once(": ").unwrap();
    assert_eq!(label, format!("label {key}"));
    Some(said.to_owned())
}

#[test]
fn number_of_values_must_fit_the_operator() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let no_number = |said: &str| Some(format!("operator {said}"));
    for (operator, values, expected) in [
        (In, &[][..], Some("operator In needs a value".to_owned())),
        (In, &["a"], None),
        (NotIn, &[], None),
        (Exists, &[], None),
        (DoesNotExist, &[], None),
        (Gt, &["0"], None),
        (Lt, &["7"], None),
        (
            Lt,
            &["a"],
            no_number("Lt needs one whole number, not \"a\""),
        ),
        (
            Gt,
            &["1", "2"],
            no_number("Gt needs one whole number, not \"1, 2\""),
        ),
        (Lt, &[], no_number("Lt needs one whole number, not \"\"")),
    ] {
        let said = said("example.com/size", operator, values);
        assert_eq!(said, expected, "{operator:?} {values:?}");
    }
}

#[test]
fn one_capacity_type_must_be_known() {
    for (values, expected) in [
        (&["spot", "fast"][..], None),
        (
            &["fast", "cheap"],
            Some("expected reserved, spot or on-demand, not fast, cheap"),
        ),
    ] {
        let of = |key| said(key, Operator::In, values);
        assert_eq!(of(labels::CAPACITY_TYPE).as_deref(), expected);
        assert_eq!(of("example.com/speed"), None);
    }
}

/// Error about a pod that uses claim `data`.
fn of_volume(change: fn(&mut VolumeClaim, &mut Volume, &mut StorageClass)) -> Option<String> {
    let mut claim = VolumeClaim {
        namespace: "default".to_owned(),
        name: "data".to_owned(),
        storage_class: Some("ssd".to_owned()),
        bind_completed: true,
        ..VolumeClaim::default()
    };
    let mut volume = Volume {
        name: "pv".to_owned(),
        ..Volume::default()
    };
    let mut class = StorageClass {
        name: "ssd".to_owned(),
        wait_for_first_consumer: true,
        ..StorageClass::default()
    };
    change(&mut claim, &mut volume, &mut class);
    let mut snapshot = fixtures::snapshot();
    snapshot.storage.claims = vec![claim];
    snapshot.storage.volumes = vec![volume];
    snapshot.storage.classes = vec![class];
    let mut pod = fixtures::pod("db", "n");
    pod.volumes = vec![PodVolume::Claim {
        claim: "data".to_owned(),
    }];
    PodValidation::new(&snapshot).problem(&pod)
}

#[test]
fn volume_must_be_bound_or_wait_for_first_consumer() {
    assert_eq!(of_volume(|_, _, _| {}), None);
    assert_eq!(of_volume(|c, _, _| c.volume = Some("pv".into())), None);
    type Change = fn(&mut VolumeClaim, &mut Volume, &mut StorageClass);
    let troubles: [(Change, &str); 9] = [
        (
            |c, _, _| c.name = "x".into(),
            "volume claim data does not exist",
        ),
        (
            |c, _, _| c.deleting = true,
            "volume claim data is being deleted",
        ),
        (
            |c, _, _| c.lost = true,
            "volume claim data has lost its volume",
        ),
        (
            |c, _, _| c.volume = Some("x".into()),
            "volume claim data is bound to x, which does not exist",
        ),
        (
            |c, v, _| (c.volume, v.deleting) = (Some("pv".into()), true),
            "volume pv of claim data is being deleted",
        ),
        (
            |c, _, _| (c.volume, c.bind_completed) = (Some("pv".into()), false),
            "volume claim data is not bound completely yet",
        ),
        (
            |c, _, _| c.storage_class = Some(String::new()),
            "volume claim data is unbound and has no storage class",
        ),
        (
            |_, _, s| s.name = "hdd".into(),
            "storage class ssd of volume claim data does not exist",
        ),
        (
            |_, _, s| s.wait_for_first_consumer = false,
            "volume claim data is waiting to be bound (Immediate)",
        ),
    ];
    for (change, expected) in troubles {
        assert_eq!(of_volume(change).as_deref(), Some(expected));
    }
}

#[test]
fn label_key_is_a_name_with_an_optional_domain() {
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
fn label_value_is_empty_or_a_name() {
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
