"""Prints the C++ lines that changed since a commit, as clang-tidy's --line-filter takes them."""

import json
import re
import subprocess
import sys


def changed_lines(base: str) -> list[dict]:
    diff = subprocess.run(
        ["git", "diff", "-U0", "--diff-filter=d", base, "--", "*.cc", "*.h"],
        check=True, capture_output=True, text=True).stdout
    ranges: dict[str, list[list[int]]] = {}
    name = ""
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/")
            continue
        hunk = re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line)
        if hunk is None:
            continue
        first, count = int(hunk[1]), int(hunk[2] or 1)
        if count > 0:
            ranges.setdefault(name, []).append([first, first + count - 1])
    return [{"name": file, "lines": lines} for file, lines in ranges.items()]


if __name__ == "__main__":
    print(json.dumps(changed_lines(sys.argv[1])))
