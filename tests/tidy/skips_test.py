#!/usr/bin/env python3
"""Skips of each kind are seen by tests/skips.py, and only listed ones pass."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import skips  # noqa: E402

CTEST = """<testsuite>
<testcase name="unit" status="run"><system-out>All tests passed</system-out></testcase>
<testcase name="python" status="run"/>{more}</testsuite>"""
UNITTEST = """test_a (test_x.X.test_a)
What it says. ... a line of the log
skipped "it's not there"
test_b (test_x.X.test_b) ... ok
setUpClass (test_x.Y) ... skipped 'no root'

OK (skipped=2)
"""


class Skips(unittest.TestCase):
    def judge(self, more: str = "", pytest: str = "<testsuite/>", listed: str = "") -> str:
        """What skips.py prints; starts with "ok" when it passes."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "ctest.xml").write_text(CTEST.format(more=more))
            (folder / "pytest.xml").write_text(pytest)
            (folder / "skipped.txt").write_text(listed)
            skips.LISTED = folder / "skipped.txt"
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                status = skips.main(folder / "ctest.xml", folder / "pytest.xml")
            return ("ok " if status == 0 else "") + said.getvalue()

    def test_nothing_skipped(self) -> None:
        self.assertEqual(self.judge(), "ok ")

    def test_ctest(self) -> None:
        for status in ("notrun", "disabled"):
            more = f'<testcase name="late" status="{status}"/>'
            self.assertIn("late", self.judge(more))
            self.assertTrue(self.judge(more, listed="late: a reason").startswith("ok "))

    def test_unittest(self) -> None:
        text = UNITTEST.replace("'", "&apos;").replace('"', "&quot;")
        more = f'<testcase name="x" status="run"><system-out>{text}</system-out></testcase>'
        said = self.judge(more)
        self.assertIn("test_x.X.test_a", said)
        self.assertIn("test_x.Y", said)
        self.assertNotIn("test_b", said)
        listed = "test_x.X.test_a: one\ntest_x.Y\tanother"
        self.assertTrue(self.judge(more, listed=listed).startswith("ok "))

    def test_unittest_that_cannot_be_read(self) -> None:
        more = '<testcase name="x" status="run"><system-out>OK (skipped=1)</system-out></testcase>'
        with self.assertRaises(SystemExit):
            self.judge(more)

    def test_pytest(self) -> None:
        case = '<testsuite><testcase classname="a.b" name="c"><skipped/></testcase></testsuite>'
        self.assertIn("a.b.c", self.judge(pytest=case))
        self.assertTrue(self.judge(pytest=case, listed="a.b.c: why").startswith("ok "))

    def test_a_line_without_a_reason_is_refused(self) -> None:
        with self.assertRaises(SystemExit):
            self.judge(listed="late")


if __name__ == "__main__":
    unittest.main()
