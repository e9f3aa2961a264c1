"""The Terraform modules: they use existing outputs of the stack, and create the entry that `whittle register` creates."""

import functools
import json
import re
import unittest

from support import ROOT, TOOLS, run

MODULES = ROOT / "infra/terraform"
# Runs the HCL parser that checkov ships.
PARSE = "import hcl2, json, sys; print(json.dumps({path: hcl2.load(open(path)) for path in sys.argv[1:]}))"


@functools.cache
def files():
    paths = sorted(MODULES.glob("**/*.tf"))
    return json.loads(run(TOOLS / "scan/bin/python", "-c", PARSE, *paths).stdout)


class Terraform(unittest.TestCase):
    def test_every_variable_and_output_is_described(self):
        described = 0
        for path, content in files().items():
            for block_type in ("variable", "output"):
                for block in content.get(block_type, ()):
                    for name, body in block.items():
                        self.assertTrue(body.get("description"), f"{path}: {block_type} {name}")
                        described += 1
        self.assertGreater(described, 10)

    def test_outputs_that_the_cluster_module_uses_exist_in_the_stack(self):
        cluster = (MODULES / "cluster/main.tf").read_text()
        outputs = set(re.findall(r"^  (\w+):", (ROOT / "sam-template.yaml").read_text().partition("\nOutputs:\n")[2], re.MULTILINE))
        named = set(re.findall(r'local\.outputs\["(\w+)"\]', cluster))
        functions = json.loads(re.search(r"functions = (\[.*\])", cluster)[1])
        queues = json.loads(re.search(r"for queue in (\[.*?\])", cluster)[1])
        self.assertIn('local.outputs["${each.key}RoleArn"]', cluster)
        named |= {f"{function}RoleArn" for function in functions}
        named |= {f"{lane}{queue}QueueUrl" for queue in queues for lane in ("", "VpcLane")}
        self.assertEqual(set(), named - outputs)
        self.assertEqual({path.name for path in (ROOT / "functions").iterdir()}, {function.lower() for function in functions})

    def test_module_sets_the_values_that_the_chart_requires(self):
        example = (ROOT / "infra/chart/example-values.yaml").read_text()
        cluster = (MODULES / "cluster/main.tf").read_text()
        for name in ("cluster", "region", "table", "queues"):
            self.assertIn(f"\n{name}:", re.sub(r"\n +", "\n", example))
            self.assertRegex(cluster, rf"\n +{name} +=")

    def test_cluster_is_registered_in_shadow_mode_and_later_changes_are_ignored(self):
        (entry,) = (
            resource["aws_ssm_parameter"]["entry"]
            for resource in files()[str(MODULES / "cluster/main.tf")]["resource"]
            if "aws_ssm_parameter" in resource
        )
        self.assertIn("'mode': 'shadow'", json.dumps(entry["value"]))
        self.assertIn("value", json.dumps(entry["lifecycle"]))
