"""Mutants that no test can notice, or none need to, with the reason: `justified.txt`."""

import re


class Justified:
    """Unindented lines are reasons, indented ones the mutants of a tree that they are for, as `line` writes them."""

    def __init__(self, root, tree):
        self.tree = tree
        text = (root / "mutants/justified.txt").read_text()
        self.entries = {line.strip(): False for line in text.splitlines() if line.startswith(" ")}

    def line(self, mutant):
        """Names a mutant by what its line holds, which other changes of its file leave alone: where it begins is marked."""
        start = mutant["span"]["start"]
        source = (self.tree / mutant["file"]).read_text().splitlines()[start["line"] - 1]
        what = re.sub(r"^[^ ]*: ", "", mutant["name"])
        marked = source[: start["column"] - 1] + "»" + source[start["column"] - 1 :]
        return f"{mutant['file']}: {what}: {marked.strip()}"

    def has(self, mutant):
        line = self.line(mutant)
        if line in self.entries:
            self.entries[line] = True
        return line in self.entries

    def idle(self):
        return [line for line, met in self.entries.items() if not met]
