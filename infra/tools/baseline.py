"""Comparison of the CPU times of two builds of whittle on recorded cases."""

import json
import statistics
import subprocess
import sys

RUNS = 5


def compare(whittle, baseline, arguments, figures):
    """Prints the medians of each of the `figures` for both builds, in ms of CPU time, and their ratio.

    Runs of the builds alternate, so that other load on the machine affects both.
    """
    times = {whittle: {}, baseline: {}}
    for _ in range(RUNS):
        for binary, known in times.items():
            command = [binary, "conformance", "--time", *arguments]
            for line in subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines():
                decided = json.loads(line)
                if "error" in decided:
                    sys.exit(f"{binary}: {decided['id']}: {decided['error']}")
                known.setdefault(decided["id"], []).append(decided["ms"])
    print(f"{'CPU ms':<32}" + "".join(f"   {figure:>10} {'baseline':>10} {'ratio':>6}" for figure in figures))
    sums = {figure: [0, 0] for figure in figures}
    for case in times[whittle]:
        columns = ""
        for figure in figures:
            ours, theirs = (
                statistics.median(run[figure] for run in times[binary][case]) for binary in (whittle, baseline)
            )
            sums[figure] = [sums[figure][0] + ours, sums[figure][1] + theirs]
            columns += row(ours, theirs)
        print(f"{case:<32}{columns}")
    print(f"{'sum':<32}" + "".join(row(*both) for both in sums.values()))


def row(ours, theirs):
    ratio = f"{ours / theirs:.2f}" if theirs else "-"
    return f"   {ours:>10.1f} {theirs:>10.1f} {ratio:>6}"
