#!/usr/bin/env python3
"""Fails when a test was skipped that tests/skipped.txt does not list with its reason.

    skips.py CTEST_JUNIT_XML PYTEST_JUNIT_XML

Looks at what ctest says of its tests, and at the skips inside them: unittest's from its verbose
output, pytest's from its own file (which must be there when ctest ran the test "python"). Prints
nothing when nothing was skipped.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

LISTED = Path(__file__).with_name("skipped.txt")
# "test_x (module.Class.test_x)", perhaps a docstring and log lines, then "... skipped 'why'".
UNITTEST_SKIP = re.compile(
    r"^(\w+) \(([\w.]+)\)(?:(?!^\w+ \([\w.]+\))[\s\S])*?\bskipped ['\"]", re.M)
UNITTEST_COUNT = re.compile(r"^(?:OK|FAILED) \(.*?\bskipped=(\d+)", re.M)


def listed(path: Path) -> dict[str, str]:
    """Name -> reason, of every line `NAME: reason` (or a tab) that is not a comment."""
    reasons: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"([\w./-]+)(?::\s*|\t)(\S.*)", line)
        if match is None:
            raise SystemExit(f"{path}:{number}: expected `NAME: reason`")
        reasons[match.group(1)] = match.group(2)
    return reasons


def skipped_by_ctest(root: ElementTree.Element) -> Iterator[str]:
    for case in root.iter("testcase"):
        name = case.get("name", "?")
        # Passed is "run", failed is "fail": those speak for themselves.
        if case.get("status") not in ("run", "fail"):
            yield name
        said = case.findtext("system-out") or ""
        names = [match.group(2) for match in UNITTEST_SKIP.finditer(said)]
        yield from names
        counted = sum(int(count) for count in UNITTEST_COUNT.findall(said))
        if counted != len(names):
            raise SystemExit(f"{name}: unittest skipped {counted}, of which {names} are known")


def skipped_by_pytest(root: ElementTree.Element) -> Iterator[str]:
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            yield f"{case.get('classname')}.{case.get('name')}"


def main(ctest_xml: Path, pytest_xml: Path) -> int:
    ctest = ElementTree.parse(ctest_xml).getroot()
    skipped = set(skipped_by_ctest(ctest))
    if any(case.get("name") == "python" and case.get("status") == "run"
           for case in ctest.iter("testcase")):
        skipped |= set(skipped_by_pytest(ElementTree.parse(pytest_xml).getroot()))
    reasons = listed(LISTED)
    unlisted = sorted(skipped - reasons.keys())
    for name in unlisted:
        print(f"skipped, and not listed with its reason in tests/{LISTED.name}: {name}")
    for name in sorted(skipped & reasons.keys()):
        print(f"skipped: {name}: {reasons[name]}")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
