"""Builds one mutant by itself, for those that cannot be built together with others."""

import re
import shutil
import subprocess
import sys

# A crate's own tests come first, and what else tests it only for what they let pass. Stories over days or with thousands of nodes take minutes.
STORIES = ["-E", "not binary(crash) and not test(crash) and not test(together) and not test(thousand) and not test(deleted_clusters)"]
STAGES = {
    "plancheck": [["plancheck"], ["scenarios"]],
    "scheduling": [["scheduling"], ["planner", "scenarios"], ["stories"]],
    "planner": [["planner"], ["scenarios"], ["stories"]],
    "executor": [["executor"], ["stories"]],
}
# What is built for one mutant is run once; what stays the same is worth its optimization.
CONFIG = "profile.dev.package.{}.opt-level=0"
LONGEST = "300"
OUTCOMES = ("caught", "missed", "timeout", "unviable")


def outcome(folder, mutant):
    for packages in STAGES[mutant["crate"]]:
        found = run(folder, mutant, packages)
        if found != "missed":
            return {"outcome": found, "by": "+".join(packages)}
    return {"outcome": "missed", "by": "apart"}


def run(folder, mutant, packages):
    tests = [word for package in packages for word in ("--test-package", package)]
    shutil.rmtree(folder / "mutants.out", ignore_errors=True)
    ended = subprocess.run(
        ["cargo", "mutants", "--in-place", "--output", str(folder), "--baseline", "skip", "--timeout", LONGEST]
        + ["--test-tool", "nextest", "--cap-lints", "true", "--cargo-arg=--locked", f"--cargo-arg=--config={CONFIG.format(mutant['crate'])}"]
        + ["-p", mutant["crate"], "-f", mutant["file"], "-F", f"^{re.escape(mutant['name'])}$", *tests]
        + (["--", *STORIES] if "stories" in packages else []),
        cwd=folder / "apart",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    # All caught or not to be built, some missed, some timed out.
    if ended.returncode not in (0, 2, 3):
        sys.exit(f"infra/tools/mutants: {mutant['name']}: cargo-mutants ended with {ended.returncode}; see {folder}/mutants.out/debug.log")
    # Deleted fields of the same file come with it, whatever is asked for.
    found = [outcome for outcome in OUTCOMES if mutant["name"] in (folder / "mutants.out" / f"{outcome}.txt").read_text().splitlines()]
    if len(found) != 1:
        sys.exit(f"infra/tools/mutants: {mutant['name']}: no outcome; see {folder}/mutants.out/debug.log")
    return found[0]
