"""CI workflows: each step is a target of the Makefile, which any machine can run, or an action of a known owner."""

import re
import unittest

from support import ROOT

import yaml

WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
# Owners of actions that may run with the repository's permissions.
OWNERS = {"actions", "aws-actions", "docker", "sigstore"}


def steps():
    for name, workflow in WORKFLOWS.items():
        for job, described in workflow["jobs"].items():
            for step in described["steps"]:
                yield f"{name} {job}", step


class Workflows(unittest.TestCase):
    def test_workflows_exist_for_changes_and_for_releases(self):
        self.assertEqual({"ci.yml", "release.yml"}, set(WORKFLOWS))

    def test_every_command_is_a_target_of_the_makefile(self):
        targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        for place, step in steps():
            if "run" in step:
                command = re.fullmatch(r"make ([a-z-]+)(?: [A-Z]+=\S+| [A-Z]+=\$\{\{ [a-z.]+ \}\})*", step["run"])
                self.assertIsNotNone(command, f"{place}: {step['run']}")
                self.assertIn(command[1], targets, place)

    def test_every_action_has_a_version_and_a_known_owner(self):
        for place, step in steps():
            if "uses" in step:
                action = re.fullmatch(r"([a-z-]+)/[a-z-]+@(v\d+|[0-9a-f]{40})", step["uses"])
                self.assertIsNotNone(action, f"{place}: {step['uses']}")
                self.assertIn(action[1], OWNERS, place)

    def test_only_the_publish_job_has_write_permissions(self):
        for name, workflow in WORKFLOWS.items():
            self.assertEqual({"contents": "read"}, workflow["permissions"], name)
            for job, described in workflow["jobs"].items():
                self.assertIn("timeout-minutes", described, f"{name} {job}")
                asks = described.get("permissions", {})
                self.assertTrue(not asks or (name, job) == ("release.yml", "publish"), f"{name} {job}: {asks}")
        for place, step in steps():
            if step.get("uses", "").startswith("actions/checkout"):
                self.assertIs(False, step["with"]["persist-credentials"], place)

    def test_release_builds_every_target_of_the_command_line(self):
        build = (ROOT / "infra/release/common.py").read_text()
        targets = set(re.findall(r'^    "([a-z]+-[a-z0-9_]+)": "', build, re.MULTILINE))
        built = {job["target"] for job in WORKFLOWS["release.yml"]["jobs"]["cli"]["strategy"]["matrix"]["include"]}
        self.assertEqual(targets, built)
