"""What the tests of the examples share."""

import ast
import re
import unittest

from harness import ROOT
from script import Place

EXAMPLES = ROOT / "examples"


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def run_example(self, name: str, *args: str) -> str:
        done = self.place.run_file(EXAMPLES / name, *args)
        self.place.wait_gone()
        return done.stdout

    def best(self, text: str) -> dict:
        return ast.literal_eval(re.search(r"[Bb]est config\w*[^{]*(\{.*\})", text).group(1))
