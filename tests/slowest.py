#!/usr/bin/env python3
"""Prints the ten slowest tests of a run, and what each spends its time on.

    slowest.py CTEST_JUNIT_XML

The reasons are in tests/slow.txt, one `NAME: reason` a line.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

LISTED = Path(__file__).with_name("slow.txt")
COUNT = 10


def reasons(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines()
             if line.strip() and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in (line.partition(":") for line in lines)}


def slowest(root: ElementTree.Element) -> list[tuple[float, str]]:
    """(seconds, name), the slowest first."""
    times = [(float(case.get("time", "0")), case.get("name", "?"))
             for case in root.iter("testcase")]
    return sorted(times, reverse=True)[:COUNT]


def main(ctest_xml: Path) -> int:
    known = reasons(LISTED)
    print(f"the {COUNT} slowest tests:")
    for seconds, name in slowest(ElementTree.parse(ctest_xml).getroot()):
        print(f"  {seconds:7.1f} s  {name}: {known.get(name, 'no reason in tests/slow.txt')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
