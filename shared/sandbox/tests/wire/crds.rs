use crate::support::Fixture;

/// Small custom kind with the features of the larger ones: defaults, limits, rules, columns, status, scale.
const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, shortNames: [wg], categories: [all]}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, maximum: 10, description: How big it is.}
              color: {type: string, default: red}
            x-kubernetes-validations:
            - {rule: "self.color != 'green' || self.size > 1", message: green ones are bigger}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec: {size: 1}
";

#[tokio::test]
async fn crd_adds_a_kind() {
    let fixture = Fixture::start().await;
    let apply = ["apply", "-f", "-"];
    fixture.kubectl_with(&apply, WIDGETS).await;
    fixture
        .kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd/widgets.example.com",
        ])
        .await;
    fixture.kubectl_with(&apply, WIDGET).await;
    assert_eq!(
        fixture.kubectl_with(&apply, WIDGET).await,
        "widget.example.com/a unchanged\n"
    );
    assert_eq!(
        fixture
            .kubectl(&["get", "wg", "a", "-o", "jsonpath={.spec.color}"])
            .await,
        "red"
    );
    let condition = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    fixture
        .kubectl(&[
            "patch",
            "wg",
            "a",
            "--type=merge",
            "--subresource=status",
            "-p",
            condition,
        ])
        .await;
    fixture
        .kubectl(&["scale", "widget/a", "--replicas=3"])
        .await;
    let table = fixture.kubectl(&["get", "widgets"]).await;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [vec!["NAME", "SIZE", "READY"], vec!["a", "3", "True"]]
    );
    let explained = fixture.kubectl(&["explain", "widget.spec.size"]).await;
    assert!(explained.contains("How big it is."), "{explained}");

    fixture
        .kubectl(&["delete", "crd", "widgets.example.com"])
        .await;
    let gone = fixture
        .try_kubectl(&["get", "widgets"], "")
        .await
        .unwrap_err();
    assert!(
        gone.contains("could not find the requested resource"),
        "{gone}"
    );
}

#[tokio::test]
async fn objects_that_violate_their_schema_are_rejected() {
    let fixture = Fixture::start().await;
    fixture.kubectl_with(&["apply", "-f", "-"], WIDGETS).await;
    for (from, to, refusal) in [
        (
            "size: 1",
            "size: 11",
            "spec.size in body should be less than or equal to 10",
        ),
        ("size: 1", "sizes: 1", "unknown field \"spec.sizes\""),
        ("{size: 1}", "{}", "spec.size: Required value"),
        (
            "{size: 1}",
            "{size: 1, color: green}",
            "spec: Invalid value: green ones are bigger",
        ),
    ] {
        let widget = WIDGET.replace(from, to);
        let error = fixture
            .try_kubectl(&["apply", "-f", "-"], &widget)
            .await
            .unwrap_err();
        assert!(error.contains(refusal), "{refusal}: {error}");
    }
}

#[tokio::test]
async fn crd_with_an_unknown_function_in_a_rule_is_rejected() {
    let fixture = Fixture::start().await;
    let strange = WIDGETS.replace("self.color != 'green'", "self.color.isURL()");
    let error = fixture
        .try_kubectl(&["apply", "-f", "-"], &strange)
        .await
        .unwrap_err();
    assert!(error.contains("isURL cannot be evaluated here"), "{error}");
}
