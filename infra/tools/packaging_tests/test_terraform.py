"""The Terraform modules: what they take from the stack is there, and what they make is what `whittle register` makes."""

import functools
import json
import re
import unittest

from support import ROOT, TOOLS, run

MODULES = ROOT / "infra/terraform"
# The parser of checkov
PARSE = "import hcl2, json, sys; print(json.dumps({path: hcl2.load(open(path)) for path in sys.argv[1:]}))"


@functools.cache
def files():
    paths = sorted(MODULES.glob("**/*.tf"))
    return json.loads(run(TOOLS / "scan/bin/python", "-c", PARSE, *paths).stdout)


class Terraform(unittest.TestCase):
    def test_every_variable_and_output_is_described(self):
        described = 0
        for path, content in files().items():
            for kind in ("variable", "output"):
                for block in content.get(kind, ()):
                    for name, body in block.items():
                        self.assertTrue(body.get("description"), f"{path}: {kind} {name}")
                        described += 1
        self.assertGreater(described, 10)

    def test_outputs_that_a_cluster_takes_are_outputs_of_the_stack(self):
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

    def test_values_are_those_that_the_chart_requires(self):
        example = (ROOT / "infra/chart/example-values.yaml").read_text()
        cluster = (MODULES / "cluster/main.tf").read_text()
        for name in ("cluster", "region", "table", "queues"):
            self.assertIn(f"\n{name}:", re.sub(r"\n +", "\n", example))
            self.assertRegex(cluster, rf"\n +{name} +=")

    def test_cluster_is_registered_in_shadow_mode_and_left_to_the_command_line(self):
        (entry,) = (
            resource["aws_ssm_parameter"]["entry"]
            for resource in files()[str(MODULES / "cluster/main.tf")]["resource"]
            if "aws_ssm_parameter" in resource
        )
        self.assertIn("'mode': 'shadow'", json.dumps(entry["value"]))
        self.assertIn("value", json.dumps(entry["lifecycle"]))
