"""Helpers of the packaging tests."""

import hashlib
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOLS = pathlib.Path(os.environ.get("WHITTLE_TOOLS", pathlib.Path.home() / ".cache/whittle-tools"))


def run(*command, check=True, **options):
    """Runs a program. With `check`, a failure raises an error with the program's output."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command[0]} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
