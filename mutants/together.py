"""Builds a tree in which every mutant is chosen as the tests run."""

import json
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Optimized, with debug builds' checks: it is built once and run many thousand times.
PROFILE = "sim"
# The crate of the stories takes long to optimize and no time to run. Link-time optimization of every program takes longer than it saves.
CONFIG = ["profile.sim.package.stories.opt-level=0", "profile.sim.lto=false", "profile.sim.codegen-units=16"]
# The crates that are changed, then everything that tests them and knows no SDK.
CHANGED = ["scheduling", "planner", "plancheck", "executor"]
TESTING = ["scenarios", "stories", "simulation"]
MARK = re.compile(rb"/\*(?:<(?P<one>\d+)|\[(?P<many>[\d,]+)|(?P<end>[>\]]))\*/")


def packages(names):
    return [word for name in names for word in ("-p", name)]


def cargo(tree, command, *arguments):
    """What cargo says, as JSON, and whether it succeeded."""
    ended = subprocess.run(
        ["cargo", command, "--locked", "--message-format=json", *arguments],
        cwd=tree, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")], ended


def write(tree, mutants, without):
    """Rewrites the tree; returns the mutants that are not in it, and how they are."""
    subprocess.run(["git", "reset", "--quiet", "--hard"], cwd=tree, check=True)
    shutil.copy(HERE / "switch.rs", tree / "shared/model/src/switch.rs")
    with (tree / "shared/model/src/lib.rs").open("a") as library:
        library.write("\npub mod switch;\n")
    lines = "".join(json.dumps(mutant) + "\n" for mutant in mutants if mutant["number"] not in without)
    placed = subprocess.run(
        ["cargo", "run", "--quiet", "--locked", "--manifest-path", HERE / "Cargo.toml", "--", tree],
        input=lines, check=True, stdout=subprocess.PIPE, text=True,
    )
    return {int(number): how for number, how in map(str.split, placed.stdout.splitlines())}


def blamed(tree, message):
    """The mutants an error is about, and whether it is about what one of them is, not about how it was written down."""
    for span in sorted(message["spans"], key=lambda span: not span["is_primary"]):
        path = tree / span["file_name"]
        if not path.is_relative_to(tree) or not path.exists():
            continue
        open_marks = []
        for mark in MARK.finditer(path.read_bytes(), 0, span["byte_end"]):
            if mark.start() >= span["byte_start"]:
                break
            if mark["end"]:
                open_marks.pop()
            else:
                open_marks.append(mark)
        if open_marks:
            mark = open_marks[-1]
            numbers = mark["one"] or mark["many"]
            return {int(number) for number in numbers.split(b",")}, bool(mark["one"])
    return set(), False


def place(tree, mutants, say):
    """Until it builds: what it was like to put each mutant there, `placed`, `unviable` or `apart`."""
    by_number = {mutant["number"]: mutant for mutant in mutants}
    how = dict.fromkeys(by_number, "placed")
    how |= write(tree, mutants, set())
    while True:
        messages, ended = cargo(tree, "check", "--keep-going", *packages(CHANGED))
        if ended.returncode == 0:
            return how
        refused = {}
        unknown = []
        for line in messages:
            message = line.get("message", {})
            if line["reason"] != "compiler-message" or message["level"] != "error" or not message["spans"]:
                continue
            numbers, own = blamed(tree, message)
            if not numbers:
                unknown.append(message["rendered"])
            for number in numbers:
                # What of a deleted field or a hidden type cannot be written beside the rest may be written alone.
                ambiguous = by_number[number]["genre"] == "StructField" or "impl " in by_number[number]["returned"]
                # Where types alone are at fault, they would be without the others.
                is_sure = own and (not ambiguous or (message["code"] or {}).get("code") == "E0277")
                refused[number] = "unviable" if is_sure else "apart"
        if not refused:
            raise SystemExit("infra/tools/mutants: the tree of all mutants does not build:\n" + ("".join(unknown) or ended.stderr))
        say(f"{len(refused)} mutants refused by the compiler")
        how |= refused
        write(tree, mutants, {number for number, state in how.items() if state != "placed"})


def build(tree):
    """Builds the tests: every program with its package and where it is run."""
    messages, ended = cargo(tree, "test", "--no-run", "--profile", PROFILE, *(f"--config={setting}" for setting in CONFIG), "--lib", "--bins", "--tests", *packages(CHANGED + TESTING))
    if ended.returncode:
        raise SystemExit(f"infra/tools/mutants: the tests do not build:\n{ended.stderr}")
    return [
        {
            "package": Path(line["manifest_path"]).parent.name,
            "target": line["target"]["name"],
            "kind": "test" if line["profile"]["test"] else "program",
            "program": line["executable"],
            "folder": str(Path(line["manifest_path"]).parent),
        }
        for line in messages
        if line["reason"] == "compiler-artifact" and line.get("executable")
    ]
