#!/usr/bin/env python3
"""Prints the end of what each failed test of a ctest run said: failed.py CTEST_XML.

Nothing where all passed. It stands near the end of the log, which is often all that is kept."""

import sys
import xml.etree.ElementTree as ElementTree

LINES = 30


def main() -> None:
    for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
        if case.get("status") != "fail":
            continue
        lines = (case.findtext("system-out") or "").rstrip().splitlines()
        print(f"--- {case.get('name')} failed; its last lines:")
        print("\n".join(lines[-LINES:]))


if __name__ == "__main__":
    main()
