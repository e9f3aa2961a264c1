"""Prerequisites of `make package-tools` and `make tools`."""

import os
import pathlib
import tempfile
import unittest

from support import ROOT, TOOLS, run

INSTALL = ROOT / "infra/tools/install"


def install_on(system, machine, *arguments):
    """Runs the installer with an `uname` that reports another machine. Groups that are already installed are kept."""
    with tempfile.TemporaryDirectory() as folder:
        uname = pathlib.Path(folder, "uname")
        uname.write_text(f'#!/bin/sh\ncase $1 in -s) echo {system} ;; -m) echo {machine} ;; esac\n')
        uname.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "WHITTLE_TOOLS": str(TOOLS)}
        return run(INSTALL, *arguments, check=False, env=environment)


class Install(unittest.TestCase):
    def test_packaging_tools_install_on_linux_and_macos_on_both_architectures(self):
        for system, machine in (("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "x86_64"), ("Darwin", "arm64")):
            done = install_on(system, machine, "packaging")
            self.assertEqual(0, done.returncode, f"{system} {machine}: {done.stderr}")

    def test_tools_for_tests_are_rejected_on_other_platforms_than_linux_x86_64(self):
        for system, machine in (("Linux", "aarch64"), ("Darwin", "arm64")):
            done = install_on(system, machine)
            self.assertEqual(1, done.returncode)
            self.assertIn("make package-tools", done.stderr)

    def test_other_systems_are_rejected_by_name(self):
        self.assertIn("there are no programs for FreeBSD-amd64", install_on("FreeBSD", "amd64", "packaging").stderr)

    def test_packaging_needs_neither_browser_nor_emulators(self):
        makefile = (ROOT / "Makefile").read_text()
        for target in ("package", "package-lane"):
            self.assertIn(f"\n{target}: package-tools ##", makefile)
        packaging = (ROOT / "infra/tools/requirements/packaging.txt").read_text()
        self.assertNotIn("moto", packaging)

    def test_unknown_arguments_are_rejected_with_the_usage(self):
        done = install_on("Linux", "x86_64", "everything")
        self.assertEqual(2, done.returncode)
        self.assertIn("infra/tools/install packaging", done.stderr)
