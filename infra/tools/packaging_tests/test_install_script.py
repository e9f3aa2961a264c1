"""`infra/install.sh` with releases in a folder and on a local server."""

import functools
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

from support import ROOT, run, sha256

sys.path.insert(0, str(ROOT / "infra/release"))
import build  # noqa: E402

ARCHIVE = f"whittle-1.2.3-linux-{build.host_architecture()}.tar.gz"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class InstallScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.release, self.home = pathlib.Path(folder.name, "release"), pathlib.Path(folder.name, "home")
        self.release.mkdir()
        self.home.mkdir()
        self.script = self.release / "install.sh"
        text = (ROOT / "infra/install.sh").read_text()
        for name, value in (("VERSION", "1.2.3"), ("DOWNLOADS", f"file://{self.release}"), ("REPOSITORY", "acme/whittle")):
            text = text.replace(f"@{name}@", value)
        self.script.write_text(text)
        program = b"#!/bin/sh\necho whittle 1.2.3\n"
        (self.release / ARCHIVE).write_bytes(build.tar_archive({"whittle": (program, 0o755), "LICENSE": (b"", 0o644)}))
        self.write_sums(sha256(self.release / ARCHIVE))

    def write_sums(self, digest):
        (self.release / "SHA256SUMS").write_text(f"{digest}  {ARCHIVE}\n{'0' * 64}  other.tar.gz\n")

    def install(self, *arguments, shell="dash", check=True, **environment):
        environment = {**os.environ, "HOME": str(self.home), **environment}
        environment.pop("WHITTLE_INSTALL", None)
        return run(shell, self.script, *arguments, check=check, env=environment)

    @property
    def installed(self):
        return self.home / ".local/bin/whittle"

    def test_program_with_the_right_checksum_is_installed_and_runs(self):
        output = self.install().stdout
        self.assertIn(f"installed whittle 1.2.3 as {self.installed}", output)
        self.assertIn("whittle completion --help", output)
        self.assertIn("to PATH", output)
        self.assertEqual("whittle 1.2.3\n", run(self.installed).stdout)
        # Again over the existing program, then to another folder, and piped to sh.
        self.install("--to", self.home / "bin")
        self.assertTrue((self.home / "bin/whittle").exists())
        piped = subprocess.run(["sh"], input=self.script.read_bytes(), env={**os.environ, "HOME": str(self.home)}, capture_output=True)
        self.assertEqual(0, piped.returncode, piped.stderr)

    def test_wrong_checksum_is_rejected_and_nothing_is_installed(self):
        self.write_sums("1" * 64)
        refused = self.install(check=False)
        self.assertEqual(1, refused.returncode)
        self.assertIn("nothing was installed", refused.stderr)
        self.assertFalse(self.installed.exists())

    def test_archive_without_a_checksum_is_rejected(self):
        (self.release / "SHA256SUMS").write_text(f"{'0' * 64}  x{ARCHIVE}\n")
        self.assertIn(f"does not name {ARCHIVE}", self.install(check=False).stderr)
        self.assertFalse(self.installed.exists())

    def test_dry_run_downloads_nothing(self):
        for path in self.release.iterdir():
            if path != self.script:
                path.unlink()
        output = self.install("--dry-run").stdout
        self.assertIn(f"download file://{self.release}/{ARCHIVE}\n", output)
        self.assertIn(f"install {self.installed}\n", output)
        self.assertFalse(self.installed.exists())

    def test_releases_are_read_over_http(self):
        handler = functools.partial(Quiet, directory=self.release)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}"
            self.install("--base-url", address + "/")
            missing = self.install("--base-url", f"{address}/none", check=False)
            server.shutdown()
        self.assertTrue(self.installed.exists())
        self.assertIn("/none/SHA256SUMS", missing.stderr)

    def test_plain_http_addresses_are_rejected(self):
        refused = self.install("--base-url", "http://example.com", check=False)
        self.assertIn("not protected", refused.stderr)

    def test_archive_is_selected_by_system_and_processor(self):
        for system, machine, name in (
            ("Darwin", "arm64", "macos-arm64"), ("Darwin", "x86_64", "macos-x86_64"), ("Linux", "aarch64", "linux-arm64"),
        ):
            folder = self.home / f"{system}-{machine}"
            folder.mkdir()
            (folder / "uname").write_text(f"#!/bin/sh\ncase $1 in -s) echo {system} ;; -m) echo {machine} ;; esac\n")
            (folder / "uname").chmod(0o755)
            output = self.install("--dry-run", PATH=f"{folder}:{os.environ['PATH']}").stdout
            self.assertIn(f"/whittle-1.2.3-{name}.tar.gz\n", output)

    def test_cosign_verifies_the_signature_for_the_workflow_of_the_tag(self):
        asked = self.home / "asked"
        cosign = self.home / "cosign"
        cosign.write_text(f'#!/bin/sh\necho "$@" > {asked}\nexit ${{COSIGN_ENDS:-0}}\n')
        cosign.chmod(0o755)
        (self.release / "SHA256SUMS.sigstore.json").write_text("{}")
        path = f"{self.home}:{os.environ['PATH']}"
        refused = self.install("--verify-signature", check=False, PATH=path, COSIGN_ENDS="1")
        self.assertIn("the signature of SHA256SUMS is not", refused.stderr)
        self.assertFalse(self.installed.exists())
        self.install("--verify-signature", PATH=path)
        self.assertIn(
            "--certificate-identity https://github.com/acme/whittle/.github/workflows/release.yml@refs/tags/v1.2.3", asked.read_text(),
        )

    def test_unrendered_script_refuses_to_run(self):
        refused = run("sh", ROOT / "infra/install.sh", check=False)
        self.assertIn("template", refused.stderr)
