use super::*;

const CLASS_REF: &str =
    "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}";

fn read(text: &str) -> Manifests {
    let mut manifests = Manifests::default();
    manifests.read("my.yaml", text);
    manifests
}

fn names(manifests: &Manifests) -> Vec<String> {
    let name = |manifest: &Manifest| {
        format!(
            "{} {}",
            manifest.object.kind(),
            manifest.object.metadata().name
        )
    };
    manifests.objects.iter().map(name).collect()
}

fn errors(text: &str) -> Vec<String> {
    read(text).errors.iter().map(ToString::to_string).collect()
}

#[test]
fn documents_are_parsed_and_empty_ones_skipped() {
    let manifests = read(
        "# a comment\n---\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n--- # b\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n...\n---\n",
    );
    assert_eq!(names(&manifests), ["Namespace a", "Namespace b"]);
    let places: Vec<_> = manifests
        .objects
        .iter()
        .map(|manifest| manifest.place.to_string())
        .collect();
    assert_eq!(places, ["my.yaml:4 (document 1)", "my.yaml:8 (document 2)"]);
    assert_eq!(manifests.errors, []);
}

#[test]
fn later_definition_of_an_object_wins() {
    let pod = |namespace: &str, node: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web{namespace}}}\nspec: {{nodeName: {node}}}\n---\n"
        )
    };
    let text = [
        pod("", "a"),
        pod(", namespace: shop", "b"),
        pod(", namespace: default", "c"),
    ];
    let manifests = read(&text.concat());
    assert_eq!(names(&manifests), ["Pod web", "Pod web"]);
    let nodes: Vec<serde_json::Value> = manifests
        .objects
        .iter()
        .filter_map(|manifest| {
            let manifest = manifest.object.to_manifest().unwrap();
            manifest.pointer("/spec/nodeName").cloned()
        })
        .collect();
    assert_eq!(nodes, ["c", "b"]);
    let formatted: Vec<String> = manifests.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        formatted,
        [
            "my.yaml:1 (document 1): Pod web is defined again at my.yaml:11 (document 3): the later definition is used"
        ]
    );
}

#[test]
fn unknown_kinds_are_reported_as_ignored() {
    let manifests = read(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: \"1\"}}\n---\n{apiVersion: serving.example.com/v1, kind: Deployment}",
    );
    let ignored: Vec<_> = manifests
        .ignored
        .iter()
        .map(|ignored| format!("{} {}", ignored.api_version, ignored.kind))
        .collect();
    assert_eq!(
        ignored,
        ["v1 ConfigMap", "serving.example.com/v1 Deployment"]
    );
    assert_eq!((manifests.objects, manifests.errors), (vec![], vec![]));
}

#[test]
fn error_names_document_line_and_field_and_others_are_parsed() {
    let manifests = read(&format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: a}}\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: default\nspec:\n  template:\n    spec:\n      requirements: []\n      {CLASS_REF}\n      expireAfter: 3 days\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: b}}\n"
    ));
    assert_eq!(names(&manifests), ["Namespace a", "Namespace b"]);
    let [error] = manifests.errors.as_slice() else {
        panic!("{:?}", manifests.errors)
    };
    assert_eq!(
        error.to_string(),
        "my.yaml:14 (document 2): spec.template.spec.expireAfter: \"3 days\" is not a duration: expected hours, minutes and seconds such as 72h or 1h30m, or Never"
    );
}

#[test]
fn missing_and_mistyped_fields_are_named() {
    let pool = |spec: &str| {
        errors(&format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a}}\nspec:\n  {spec}\n"
        ))
    };
    for (spec, expected) in [
        (
            "weight: 10",
            "my.yaml:5 (document 1): spec: missing field `template`",
        ),
        (
            &format!("template: {{spec: {{requirements: [], {CLASS_REF}}}}}\n  weight: heavy"),
            "my.yaml:6 (document 1): spec.weight: invalid type: string \"heavy\", expected i32",
        ),
        (
            &format!(
                "template: {{spec: {{requirements: [{{key: cpu, operator: Gt, values: [5]}}], {CLASS_REF}}}}}"
            ),
            "my.yaml:5 (document 1): spec.template.spec.requirements[0].values[0]: invalid type: integer `5`, expected a string",
        ),
    ] {
        assert_eq!(pool(spec), [expected]);
    }
}

#[test]
fn non_kubernetes_objects_are_reported() {
    assert_eq!(
        errors("a: b"),
        ["my.yaml:1 (document 1): no Kubernetes object: apiVersion and kind are missing"]
    );
    assert_eq!(
        errors("kind: Pod"),
        ["my.yaml:1 (document 1): a Pod without apiVersion"]
    );
    assert_eq!(
        errors("apiVersion: v1"),
        ["my.yaml:1 (document 1): an object without kind"]
    );
    assert_eq!(errors("just text").len(), 1);
    assert_eq!(errors("a: [").len(), 1);
    assert_eq!(errors(""), [""; 0]);
}

#[test]
fn unsupported_version_names_the_supported_one() {
    assert_eq!(
        errors("apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nspec: {}"),
        [
            "my.yaml:1 (document 1): apiVersion: \"karpenter.sh/v1beta1\" is not a version of NodePool that can be read: expected karpenter.sh/v1: `whittle convert -f <file>` makes v1 of it"
        ]
    );
}

#[test]
fn misspelt_fields_of_karpenter_objects_are_reported() {
    let manifests = read(&format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a, managedFields: []}}\nspec:\n  wheight: 3\n  template:\n    metadata: {{label: {{a: b}}}}\n    spec:\n      requirements: [{{key: a, operator: Exists, minValue: 2}}]\n      {CLASS_REF}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [], restartPolicy: Always}}"
    ));
    assert_eq!(
        manifests.objects[0].unknown_fields,
        [
            "spec.template.metadata.label",
            "spec.template.spec.requirements[0].minValue",
            "spec.wheight"
        ]
    );
    assert_eq!(manifests.objects[1].unknown_fields, [""; 0]);
}

const PODS: &str = r#"{
  "apiVersion": "v1",
  "kind": "List",
  "items": [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"},
     "spec": {"priority": "high", "containers": []}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}}
  ]
}
"#;

#[test]
fn json_lists_are_split() {
    let manifests = read(PODS);
    assert_eq!(names(&manifests), ["Pod a"]);
    assert_eq!(
        manifests.ignored[0].place.to_string(),
        "my.yaml:8 (document 1, item 3)"
    );
    assert_eq!(
        manifests.errors[0].to_string(),
        "my.yaml:7 (document 1, item 2): spec.priority: invalid type: string \"high\", expected i32"
    );
}

#[test]
fn yaml_lists_are_split() {
    let manifests = read(
        "---\napiVersion: v1\nkind: PodList\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec: {containers: []}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n  spec: {priority: high, containers: []}\n",
    );
    assert_eq!(names(&manifests), ["Pod a"]);
    assert_eq!(
        manifests.errors[0].to_string(),
        "my.yaml:12 (document 1, item 2): spec.priority: invalid type: string \"high\", expected i32"
    );
    assert_eq!(errors("{apiVersion: v1, kind: List, items: null}"), [""; 0]);
    assert!(errors("{apiVersion: v1, kind: List, items: 3}")[0].contains("items"));
}

#[test]
fn json_values_may_be_concatenated() {
    let manifests = read(
        "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"a\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"b\"}}",
    );
    assert_eq!(names(&manifests), ["Namespace a", "Namespace b"]);
    assert_eq!(manifests.objects[1].place.line, 2);
}

#[test]
fn markers_inside_block_scalars_do_not_split_documents() {
    let manifests = read(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  subnetSelectorTerms: []\n  securityGroupSelectorTerms: []\n  amiSelectorTerms: []\n  userData: |\n    MIME-Version: 1.0\n    --//\n    ---\n    text\n",
    );
    let [
        Manifest {
            object: Object::EC2NodeClass(class),
            ..
        },
    ] = manifests.objects.as_slice()
    else {
        panic!("{manifests:?}")
    };
    assert_eq!(
        class.spec.user_data.as_deref(),
        Some("MIME-Version: 1.0\n--//\n---\ntext\n")
    );
}

#[test]
fn all_errors_of_an_object_are_reported() {
    let text = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  weight: heavy
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}
      requirements:
      - {key: [a], operator: In, values: [b]}
  replicas: many
";
    let manifests = read(text);
    let fields: Vec<_> = manifests
        .errors
        .iter()
        .map(|error| (error.place.line, error.field.as_deref().unwrap_or_default()))
        .collect();
    let expected = [
        (5, "spec.weight"),
        (10, "spec.template.spec.requirements[0].key"),
        (11, "spec.replicas"),
    ];
    assert_eq!(fields, expected);
    assert!(manifests.objects.is_empty());
}
