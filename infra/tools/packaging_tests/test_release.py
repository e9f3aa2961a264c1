"""Artifacts of a release, built from placeholder programs."""

import fnmatch
import functools
import json
import logging
import os
import pathlib
import re
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

from support import ROOT, TOOLS, run, sha256
from test_images import static_program

import yaml
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

sys.path.insert(0, str(ROOT / "infra/release"))
import common  # noqa: E402
import templates  # noqa: E402

logging.getLogger("samtranslator").setLevel(logging.ERROR)
VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
SETTINGS = {"RELEASE_REPOSITORY": "acme/whittle", "RELEASE_BUCKET": "acme-whittle", "RELEASE_REGIONS": "us-east-1 eu-central-1"}

# Answers as the command line does.
PROGRAM = f"""#!/bin/sh
case "$1" in
completion) echo "completion for $2" ;;
man) echo page > "$3/whittle.1"; echo page > "$3/whittle-plan.1" ;;
*) echo whittle {VERSION} ;;
esac
"""


def release(*arguments, check=True, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    environment = {**inherited, "WHITTLE_TOOLS": str(TOOLS), **SETTINGS, **environment}
    return run(sys.executable, ROOT / "infra/release/release", *arguments, check=check, env=environment)


def write_programs(folder, targets):
    for target in targets:
        name = "whittle.exe" if target.startswith("windows") else "whittle"
        (folder / target).mkdir(parents=True)
        program = folder / target / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
    for architecture, machine in (("arm64", 183), ("x86_64", 62)):
        (folder / "functions" / architecture).mkdir(parents=True)
        for function in common.FUNCTIONS:
            (folder / "functions" / architecture / function).write_text(f"{function} for {architecture}")
        (folder / "relay").mkdir(exist_ok=True)
        (folder / "relay" / architecture).write_bytes(static_program(machine))


class Artifacts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.dist, programs = cls.folder / "dist", cls.folder / "programs"
        # All targets but one: a dry run lists the omitted artifacts.
        write_programs(programs, [target for target in common.TARGETS if target != "windows-x86_64"])
        cls.output = release("dry-run", "--dist", cls.dist, "--binaries", programs).stdout

    def path(self, name):
        return self.dist / name.replace("VERSION", VERSION)

    def read(self, name):
        return self.path(name).read_text()

    def test_omitted_artifacts_are_listed_with_the_reason(self):
        _, _, left_out = self.output.partition("Left out:\n")
        self.assertRegex(left_out, "whittle for windows-x86_64: .*whittle.exe is missing")
        self.assertIn("bills of materials: `make release-sbom`", left_out)
        self.assertEqual(2, left_out.count("\n"))

    def test_archives_contain_the_program_its_license_completions_and_manual_pages(self):
        completions = [f"completions/{name}" for name in ("whittle.bash", "_whittle", "whittle.fish", "whittle.ps1")]
        pages = ["man/whittle-plan.1", "man/whittle.1"]
        with tarfile.open(self.path("whittle-VERSION-linux-arm64.tar.gz")) as archive:
            self.assertEqual(["whittle", "LICENSE", "README.md", "CHANGELOG.md", *completions, *pages], archive.getnames())
            self.assertEqual(0o755, archive.getmember("whittle").mode)
            self.assertEqual(b"completion for zsh\n", archive.extractfile("completions/_whittle").read())

    def test_formula_installs_files_that_archives_contain(self):
        named = re.findall(r'"((?:completions|man)/[^"]*)"', self.read("whittle.rb"))
        with tarfile.open(self.path("whittle-VERSION-linux-arm64.tar.gz")) as archive:
            for pattern in named:
                self.assertTrue(any(fnmatch.fnmatch(name, pattern) for name in archive.getnames()), pattern)
        self.assertEqual(4, len(named))

    def test_function_zips_contain_a_program_named_bootstrap(self):
        for architecture in ("arm64", "x86_64"):
            for function in common.FUNCTIONS:
                with zipfile.ZipFile(self.path(f"whittle-{function}-VERSION-{architecture}.zip")) as archive:
                    (entry,) = archive.infolist()
                    self.assertEqual("bootstrap", entry.filename)
                    self.assertEqual(0o755, entry.external_attr >> 16 & 0o777)
                    self.assertEqual(f"{function} for {architecture}", archive.read(entry).decode())

    def test_checksums_name_every_artifact(self):
        lines = [line.split("  ") for line in self.read("SHA256SUMS").splitlines()]
        self.assertEqual({name: digest for digest, name in lines}, {
            path.name: sha256(path) for path in self.dist.iterdir() if path.name not in ("SHA256SUMS", "NOTES.md")
        })

    def test_artifacts_are_reproducible(self):
        again = self.folder / "again"
        release("dry-run", "--dist", again, "--binaries", self.folder / "programs")
        # helm stores the current time in archives.
        for path in self.dist.iterdir():
            if path.suffix != ".tgz" and path.name != "SHA256SUMS":
                self.assertEqual(sha256(path), sha256(again / path.name), path.name)

    def test_chart_has_crds_and_installs_the_image_of_the_release(self):
        chart = self.path("whittle-chart-VERSION.tgz")
        helm = TOOLS / "bin/helm"
        with tarfile.open(chart) as archive:
            example = archive.extractfile("whittle/example-values.yaml").read().decode()
        values = self.folder / "values.yaml"
        values.write_text(example)
        self.assertNotIn("image", example.replace("image: leave", ""))
        objects = list(filter(None, yaml.safe_load_all(run(helm, "template", "whittle", chart, "--values", values).stdout)))
        self.assertEqual(5, sum(document["kind"] == "CustomResourceDefinition" for document in objects))
        (relay,) = (document for document in objects if document["kind"] == "Deployment")
        pod = relay["spec"]["template"]["spec"]
        digest = re.search(r"acme/whittle/relay@(sha256:[0-9a-f]{64})", self.output)[1]
        self.assertEqual(f"ghcr.io/acme/whittle/relay@{digest}", pod["containers"][0]["image"])
        self.assertEqual({"kubernetes.io/os": "linux"}, pod["nodeSelector"])
        self.assertIn(f'`"{digest}"`', run(helm, "show", "readme", chart).stdout)

    def test_formula_and_krew_manifest_name_archives_and_their_checksums(self):
        formula, manifest = self.read("whittle.rb"), yaml.safe_load(self.read("whittle.krew.yaml"))
        named = {platform["uri"]: platform["sha256"] for platform in manifest["spec"]["platforms"]}
        self.assertEqual(5, len(named))
        for target in ("linux-arm64", "linux-x86_64", "macos-arm64", "macos-x86_64"):
            name = f"whittle-{VERSION}-{target}.tar.gz"
            address = f"https://github.com/acme/whittle/releases/download/v{VERSION}/{name}"
            digest = sha256(self.dist / name)
            self.assertEqual(digest, named[address])
            self.assertIn(f'url "{address}"\n      sha256 "{digest}"\n', formula)
        for name in ("whittle.rb", "whittle.krew.yaml", "install.sh"):
            self.assertNotRegex(self.read(name), "@[A-Z]")

    def test_install_script_of_the_release_installs_its_program(self):
        run("sh", self.path("install.sh"), "--base-url", f"file://{self.dist}", "--to", self.folder / "bin")
        self.assertEqual(f"whittle {VERSION}\n", run(self.folder / "bin/whittle").stdout)

    def test_publishing_signs_pushes_and_uploads_to_every_region(self):
        for part in (
            "cosign sign-blob --yes --bundle",
            "skopeo copy --all --preserve-digests oci-archive:",
            "cosign sign --yes --recursive ghcr.io/acme/whittle/relay@sha256:",
            "helm push",
            f"s3://acme-whittle-eu-central-1/whittle/{VERSION}/lifecycle-x86_64.zip",
            f"gh release create v{VERSION} --repo acme/whittle --verify-tag",
            "quick create in eu-central-1: https://console.aws.amazon.com/cloudformation/home?region=eu-central-1#/stacks/quickcreate?",
        ):
            self.assertIn(part, self.output)

    def test_publishing_is_rejected_without_settings_or_changelog(self):
        refused = release("publish", "--dist", self.dist, check=False, RELEASE_BUCKET="")
        self.assertIn("RELEASE_BUCKET", refused.stderr)
        refused = release("publish", "--dist", self.dist, check=False)
        if f"## [{VERSION}] - " not in (ROOT / "CHANGELOG.md").read_text():
            self.assertIn(f"no section `## [{VERSION}] - <date>`", refused.stderr)
        self.assertEqual(1, refused.returncode)

    def test_incomplete_release_is_rejected(self):
        refused = release("assemble", "--dist", self.dist, check=False)
        self.assertIn(f"missing are whittle-{VERSION}-windows-x86_64.zip, sbom", refused.stderr)

    def test_tag_must_be_the_version(self):
        refused = release("publish", "--dist", self.dist, check=False, GITHUB_REF_TYPE="tag", GITHUB_REF_NAME="v99.0.0")
        self.assertIn("the tag is v99.0.0", refused.stderr)


class NoPolicies:
    """Stub for AWS managed policies, which the templates do not use."""

    def load(self):
        return {}


@functools.cache
def translate(text):
    """Translates a template with SAM's own translator, as CloudFormation receives it."""
    template = yaml_parse(text)
    parameters = {name: str(described.get("Default", "")) for name, described in template["Parameters"].items()}
    with unittest.mock.patch.dict(os.environ, AWS_DEFAULT_REGION="us-east-1"):
        return json.loads(json.dumps(transform(template, parameters, NoPolicies()), default=str))


def of_type(template, name):
    return {key: resource["Properties"] for key, resource in template["Resources"].items() if resource["Type"] == name}


class Templates(unittest.TestCase):
    release = common.Release("1.2.3", pathlib.Path("."), "acme/whittle", "acme-whittle")

    def test_functions_use_zips_of_the_regional_bucket_or_of_a_custom_one(self):
        for text in (templates.stack(self.release), templates.lane(self.release)):
            found = of_type(translate(text), "AWS::Lambda::Function")
            self.assertEqual(6, len(found))
            keys = set()
            for function in found.values():
                bucket = function["Code"]["S3Bucket"]["Fn::If"]
                self.assertEqual("OwnArtifactBucket", bucket[0])
                # The translator substitutes the Region.
                self.assertEqual({"Fn::Sub": "acme-whittle-us-east-1"}, bucket[2])
                keys.add(json.dumps(function["Code"]["S3Key"]))
            for name in common.FUNCTIONS:
                self.assertEqual(1, sum(f"1.2.3/{name}-" in key for key in keys), keys)

    def test_lane_of_the_stack_is_the_published_one_and_gets_its_bucket(self):
        ((properties),) = of_type(translate(templates.stack(self.release)), "AWS::CloudFormation::Stack").values()
        self.assertIn("1.2.3/vpc-lane.yaml", json.dumps(properties["TemplateURL"]))
        lane = yaml_parse(templates.lane(self.release))
        self.assertTrue(set(properties["Parameters"]) <= set(lane["Parameters"]))
        self.assertIn("ArtifactBucket", properties["Parameters"])

    def test_release_template_differs_only_in_the_location_of_code(self):
        def without_code(template):
            template = json.loads(json.dumps(template))
            for function in of_type(template, "AWS::Lambda::Function").values():
                function.pop("Code")
            # Names of these resources contain hashes of the code.
            return {
                key: resource for key, resource in template["Resources"].items()
                if resource["Type"] not in ("AWS::Lambda::Version", "AWS::Lambda::Alias", "AWS::CloudFormation::Stack")
            }

        source = (ROOT / "sam-template.yaml").read_text()
        source = re.sub(r"(CodeUri|Location): (functions|infra)/", r"\1: s3://packaged/", source)
        # SAM keeps the build method in the functions' metadata.
        before = without_code(translate(source.replace("    Metadata: {BuildMethod: rust-cargolambda}\n", "")))
        self.assertEqual(before, without_code(translate(templates.stack(self.release))))

    def test_application_of_the_repository_has_literal_code_and_no_lane(self):
        text = templates.application(self.release)
        self.assertNotIn("VpcLane", text)
        found = of_type(translate(text), "AWS::Lambda::Function")
        self.assertEqual(
            {f"whittle/1.2.3/{name}-arm64.zip" for name in common.FUNCTIONS}, {function["Code"]["S3Key"] for function in found.values()},
        )
        self.assertIn("SemanticVersion: 1.2.3\n", text)

    def test_application_passes_the_linter(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "application.yaml")
            path.write_text(templates.application(self.release))
            run(TOOLS / "sam/bin/cfn-lint", "--non-zero-exit-code", "error", path, env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1"})
