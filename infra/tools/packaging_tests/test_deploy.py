"""`sam deploy` of a release's template with zips in a bucket, to an emulator of AWS. Nothing is built."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import boto3
from support import ROOT, TOOLS, run
from test_release import SETTINGS, release, write_programs

import common

BUCKET = f"{SETTINGS['RELEASE_BUCKET']}-us-east-1"
ACCOUNT = {"AWS_ACCESS_KEY_ID": "123456789012", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


class Deploy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.endpoint = self.start_ministack()

    def start_ministack(self):
        """Starts the emulator of the end-to-end tests, which exits when its standard input is closed."""
        script = ROOT / "tests/harness/python/serve_ministack.py"
        process = subprocess.Popen(
            [TOOLS / "ministack/bin/python", script, json.dumps({"environment": {}})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **ACCOUNT},
        )

        def end():
            process.stdin.close()
            process.wait(timeout=60)
            process.stdout.close()

        self.addCleanup(end)
        return json.loads(process.stdout.readline())["endpoint"]

    def client(self, service):
        return boto3.client(
            service, endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id=ACCOUNT["AWS_ACCESS_KEY_ID"], aws_secret_access_key=ACCOUNT["AWS_SECRET_ACCESS_KEY"],
        )

    def upload(self, printed):
        """Uploads the artifacts as publishing does to the bucket of the Region."""
        storage = self.client("s3")
        storage.create_bucket(Bucket=BUCKET)
        for line in printed.splitlines():
            if line.startswith("+ aws s3 cp") and f" s3://{BUCKET}/" in line:
                path, address = line.split()[-2:]
                storage.upload_file(path, BUCKET, address.removeprefix(f"s3://{BUCKET}/"))

    def test_stack_of_a_release_is_deployed_with_its_zips(self):
        dist = self.folder / "dist"
        write_programs(self.folder / "programs", list(common.TARGETS))
        self.upload(release("dry-run", "--dist", dist, "--binaries", self.folder / "programs").stdout)
        (template,) = dist.glob("whittle-[0-9]*.template.yaml")
        run(
            TOOLS / "bin/sam", "deploy", "--template-file", template, "--stack-name", "whittle", "--region", "us-east-1", "--resolve-s3",
            "--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND", "--no-progressbar",
            cwd=self.folder,
            env={**os.environ, **ACCOUNT, "AWS_ENDPOINT_URL": self.endpoint, "SAM_CLI_TELEMETRY": "0"},
        )
        # The emulator ignores given parameters and translates with the defaults: arm64.
        functions = self.client("lambda").list_functions()["Functions"]
        self.assertEqual({f"whittle-{name}" for name in common.FUNCTIONS}, {function["FunctionName"] for function in functions})
        for function in functions:
            (archive,) = dist.glob(f"{function['FunctionName']}-*-arm64.zip")
            self.assertEqual(archive.stat().st_size, function["CodeSize"], function["FunctionName"])
