"""Waits of `make race`."""

import pathlib
import tempfile
import unittest

from support import ROOT, run


class Race(unittest.TestCase):
    def test_cluster_that_does_not_become_ready_ends_the_measurement_and_its_program(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = pathlib.Path(folder, "ended")
            world = pathlib.Path(folder, "world")
            world.write_text(f"#!/bin/sh\ntrap 'touch {ended}; exit' TERM\necho '# node role: race'\nwhile :; do sleep 0.1; done\n")
            world.chmod(0o755)
            done = run(ROOT / "infra/tools/race", "--world", world, "--limit", "0.5", check=False)
            self.assertEqual(1, done.returncode)
            self.assertIn(f"until the cluster of {world} is ready", done.stderr)
            self.assertTrue(ended.exists(), done.stderr)
