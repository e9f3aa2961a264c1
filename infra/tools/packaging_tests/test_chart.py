"""The chart as users install it: example values that work in any cluster, and a README that lists the values."""

import json
import unittest

from support import ROOT, TOOLS, run

import yaml

CHART = ROOT / "infra/chart"


def template(*arguments):
    output = run(TOOLS / "bin/helm", "template", "whittle", CHART, "--namespace", "kube-system", *arguments).stdout
    return [document for document in yaml.safe_load_all(output) if document]


class Chart(unittest.TestCase):
    def test_example_values_install_in_a_plain_cluster(self):
        objects = template("--values", CHART / "example-values.yaml")
        kinds = {document["kind"] for document in objects}
        self.assertFalse(kinds & {"ServiceMonitor", "PrometheusRule", "NetworkPolicy"}, kinds)
        (relay,) = (document for document in objects if document["kind"] == "Deployment")
        variables = {variable["name"] for variable in relay["spec"]["template"]["spec"]["containers"][0]["env"]}
        self.assertFalse({name for name in variables if "PROXY" in name}, variables)
        (account,) = (document for document in objects if document["kind"] == "ServiceAccount")
        self.assertNotIn("eks.amazonaws.com/role-arn", account["metadata"].get("annotations", {}))

    def test_example_values_are_all_required(self):
        example = yaml.safe_load((CHART / "example-values.yaml").read_text())
        self.assertEqual({"cluster", "stack", "relay"}, set(example))
        for path in ("cluster", "stack.region", "stack.table", "stack.queues.disrupt", "relay.image.repository"):
            refused = run(
                TOOLS / "bin/helm", "template", "whittle", CHART, "--values", CHART / "example-values.yaml",
                "--set", f"{path}=", check=False,
            )
            self.assertIn(f"{path} is needed", refused.stderr)

    def test_notes_name_the_pod_identity_association_unless_a_role_is_set(self):
        def notes(*arguments):
            return run(
                TOOLS / "bin/helm", "install", "whittle", CHART, "--dry-run=client", "--namespace", "kube-system", *arguments,
                "--values", CHART / "example-values.yaml",
            ).stdout.partition("NOTES:")[2]

        self.assertIn("create-pod-identity-association --cluster-name my-cluster --namespace kube-system", notes())
        self.assertIn("--service-account whittle-relay --role-arn <output RelayRoleArn>", notes())
        role = "arn:aws:iam::111122223333:role/relay"
        self.assertNotIn("pod-identity", notes("--set", f"relay.serviceAccount.roleArn={role}"))

    def test_readme_lists_every_value_with_default_and_description(self):
        run(ROOT / "infra/tools/chart-readme", "--check")

    def test_versions_of_chart_and_workspace_agree(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        crds = yaml.safe_load((CHART / "charts/crds/Chart.yaml").read_text())
        metadata = json.loads(run("cargo", "metadata", "--no-deps", "--offline", "--format-version", "1", cwd=ROOT).stdout)
        (whittle,) = (package["version"] for package in metadata["packages"] if package["name"] == "whittle")
        versions = {chart["version"], chart["appVersion"], chart["dependencies"][0]["version"], crds["version"], crds["appVersion"]}
        self.assertEqual({whittle}, versions)
