"""Runs tests with one mutant on: those that come by it, until one fails."""

import collections
import os
import resource
import signal
import subprocess
import tempfile
from pathlib import Path

# What takes longer alone is not worth its time a thousand times over.
LONGEST = 5.0
# A mutant is let pass when so much was spent on it: what notices one does so early, as a rule.
BUDGET = 10.0
# What takes this much longer with a mutant does not end.
TIMES, SECONDS = 10, 1
# Processes that wait need no time of the processor; other programs may need it.
WAIT = 20
MEMORY = 4 << 30
SEEDS = range(0, 200, 5)


def units(programs):
    """Every test by itself, and seeds of the simulation a few at a time."""
    for one in programs:
        name = f"{one['package']}/{one['target']}"
        if one["kind"] == "program":
            for seed in SEEDS:
                env = {"SIM_FIRST": str(seed), "SEEDS": str(SEEDS.step), "SIM_ALL": "true"}
                yield {"name": f"{name} {seed}", "command": [one["program"]], "env": env, "folder": one["folder"], "package": one["package"]}
            continue
        # Its seeds are played one by one, without looking for the events that matter.
        if name == "simulation/seeds":
            continue
        listed = subprocess.run(
            [one["program"], "--list", "--format", "terse"], cwd=one["folder"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        for line in listed.splitlines():
            test, _, kind = line.rpartition(": ")
            if kind == "test":
                command = [one["program"], "--exact", test, "--test-threads=1"]
                yield {"name": f"{name} {test}", "command": command, "env": {}, "folder": one["folder"], "package": one["package"]}


def run(unit, seconds, **env):
    """`passed`, `failed` or `timeout`, and the processor's time."""

    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    limits = ["prlimit", f"--cpu={int(seconds) + 1}:{int(seconds) + 2}", f"--as={MEMORY}", "--core=0"]
    process = subprocess.Popen(
        limits + unit["command"], cwd=unit["folder"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "CARGO_MANIFEST_DIR": unit["folder"], "RUST_BACKTRACE": "0", **unit["env"], **env},
    )
    try:
        code = process.wait(timeout=WAIT + WAIT * seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = -signal.SIGXCPU
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout", took
    return "failed" if code else "passed", took


def reached(programs, say):
    """The tests with their time and the mutants that each comes by."""
    tests = []
    for unit in units(programs):
        with tempfile.NamedTemporaryFile() as numbers_file:
            outcome, seconds = run(unit, LONGEST, MUTANT_REACHED=numbers_file.name)
            numbers = sorted({int(line) for line in Path(numbers_file.name).read_text().split()})
        if outcome == "failed":
            raise SystemExit(f"infra/tools/mutants: {unit['name']} fails without a mutant")
        if outcome == "timeout":
            say(f"takes too long: {unit['name']}")
            continue
        tests.append({**unit, "seconds": seconds, "reached": numbers})
    return tests


class Judge:
    """What noticed a change of a file is asked first about the next, and a crate's own tests before others."""

    def __init__(self, tests):
        self.tests = {}
        for test in tests:
            for number in test["reached"]:
                self.tests.setdefault(number, []).append(test)
        self.noticed = collections.defaultdict(collections.Counter)

    def outcome(self, mutant):
        noticed = self.noticed[mutant["file"]]

        def worth(test):
            far = 1 if test["package"] == mutant["crate"] else 4
            return test["seconds"] * far / (1 + noticed[test["name"]])

        tests = sorted(self.tests.get(mutant["number"], []), key=worth)
        spent = 0.0
        for asked, test in enumerate(tests):
            if spent > BUDGET:
                return {"outcome": "missed", "tests": asked, "reached": len(tests)}
            outcome, seconds = run(test, TIMES * test["seconds"] + SECONDS, MUTANT=str(mutant["number"]))
            if outcome != "passed":
                noticed[test["name"]] += 1
                return {"outcome": "caught" if outcome == "failed" else "timeout", "by": test["name"]}
            spent += seconds
        return {"outcome": "missed", "tests": len(tests), "reached": len(tests)}
