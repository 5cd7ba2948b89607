"""Every code block of README.md and docs/ does what the text around it says.

A block is fenced and names its language: sh, python, yaml, json and cpp are run, parsed or
compiled; text is what no program reads (pictures, formats, output). A file name after the language
says how the block is saved beside the others of its document; `yaml experiment` and `yaml cluster`
are parts of such files. A block that cannot run here has a comment above it:
`<!-- not run: REASON -->`.
"""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import unittest
from typing import Iterator

from harness import BIN, ROOT, ClusterTest, processes_of, wait_until

VENV_PYTHON = ROOT / "build/venv/bin/python"  # docs/data.md needs pyarrow.
LANGUAGES = ("sh", "python", "yaml", "json", "cpp", "text")
MARKER = re.compile(r"<!-- not run: (.+) -->")
# A text that begins like this is a command that nobody checks.
COMMAND = re.compile(r"(\$ |export |rt |rt-|python3? |pip |cmake |\./|tests/|deploy/|systemctl )")
WHOLE = {"experiment": "experiment: part\ncommand: [/bin/true]\n",
         "cluster": "cluster_name: part\nprovider: {type: local}\n"}
CPP = """#include "common/run/trial_client.h"
int main() {{
  double loss = 0; int epoch = 0;
{}
}}
"""
# Three searches of two trials: the second one ends with a checkpoint, the first one stays.
SEARCH = """
experiment: part
command: [/bin/sh, -c, 'mkdir -p model && echo weights > model/w &&
  rt report loss=0.5 --checkpoint model && if [ ${hold} = 1 ]; then sleep 600; fi']
space: {hold: {grid: [1, 0]}}
metric: loss
mode: min
"""


@dataclasses.dataclass(frozen=True)
class Block:
    document: str
    line: int
    info: str
    text: str
    not_run: str  # The marker's reason; "" for a block that is run.

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def detail(self) -> str:
        """The file's name, or what the block is a part of."""
        return self.info.partition(" ")[2]

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(path: pathlib.Path) -> Iterator[Block]:
    """The fenced blocks; an indented one has no info."""
    lines = path.read_text().split("\n")
    document = str(path.relative_to(ROOT))
    at = 0
    while at < len(lines):
        line, before = lines[at], lines[at - 1] if at else ""
        marker = MARKER.fullmatch(before)
        begin = at + 1
        if line.startswith("```"):
            end = lines.index("```", begin)
            yield Block(document, begin, line[3:].strip(), "\n".join(lines[begin:end]) + "\n",
                        marker.group(1) if marker else "")
            at = end
        elif line.startswith("    ") and not before.strip():
            while at + 1 < len(lines) and lines[at + 1].startswith("    "):
                at += 1
            yield Block(document, begin, "", "\n".join(lines[begin - 1:at + 1]), "")
        at += 1


BLOCKS = [block for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
          for block in blocks_of(path)]


class FormTest(unittest.TestCase):
    def test_every_block_says_what_it_is(self) -> None:
        self.assertGreater(len(BLOCKS), 30)
        for block in BLOCKS:
            with self.subTest(block.place):
                self.assertIn(block.language, LANGUAGES, block.text)
                if block.language == "text":
                    self.assertIsNone(COMMAND.match(block.text), block.text)

    def test_what_is_not_run_has_a_reason(self) -> None:
        marked = [block for block in BLOCKS if block.not_run]
        for block in marked:
            print(f"not run: {block.place}: {block.not_run}")
            self.assertIn(block.language, ("sh", "python", "cpp", "yaml"), block.place)
            self.assertGreater(len(block.not_run), 20, block.place)
        in_text = sum(line.lstrip().startswith("<!-- not run") for path in
                      (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
                      for line in path.read_text().split("\n"))
        self.assertEqual(len(marked), in_text, "a marker stands directly above its block")

    def test_json(self) -> None:
        for block in BLOCKS:
            if block.language == "json":
                with self.subTest(block.place):
                    json.loads(block.text)

    def test_cpp(self) -> None:
        compiler = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-I", str(ROOT), "-x",
                    "c++", "-"]
        for block in BLOCKS:
            if block.language == "cpp" and not block.not_run:
                done = subprocess.run(compiler, input=CPP.format(block.text), text=True,
                                      capture_output=True)
                self.assertEqual(done.returncode, 0, f"{block.place}\n{done.stderr}")


class DocsTest(ClusterTest):
    workers, cpus = 3, 2

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        for number in range(1, 4):
            cls.cluster.submit("part", SEARCH)
        wait_until("the checkpoints are committed", lambda: all(
            {trial["state"] for trial in cls.cluster.trials(number)} == {"RUNNING", "COMPLETED"}
            and all(trial["reports"] == 1 for trial in cls.cluster.trials(number))
            for number in range(1, 4)))
        programs = cls.cluster.home / "programs"
        programs.mkdir()
        python = programs / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(str(VENV_PYTHON))} "$@"\n')
        python.chmod(0o755)
        cls.env = {**cls.cluster.env, "RT_BIN": str(BIN), "PYTHONPATH": str(ROOT / "python"),
                   "PATH": f"{programs}:{BIN}:{os.environ['PATH']}", "RT_CLUSTER": "it"}

    def folder(self, document: str) -> pathlib.Path:
        """Where a document's commands run: as in the tree, and its named blocks are there."""
        folder = self.cluster.home / "docs" / document.replace("/", "-")
        if not folder.exists():
            (folder / "build/release").mkdir(parents=True)
            (folder / "build/venv/bin").mkdir(parents=True)
            (folder / "build/release/bin").symlink_to(BIN)
            (folder / "build/venv/bin/python").symlink_to(self.cluster.home / "programs/python3")
            (folder / "python").symlink_to(ROOT / "python")
            for block in BLOCKS:
                if block.document == document and "." in block.detail:
                    (folder / block.detail).write_text(block.text)
        return folder

    def run_block(self, block: Block, argv: list[str], env: dict[str, str]) -> None:
        done = subprocess.run(argv, cwd=self.folder(block.document), env=env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, f"{block.place}\n{block.text}\n"
                         f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")

    def test_yaml(self) -> None:
        for block in BLOCKS:
            if block.language != "yaml" or block.not_run:
                continue
            with self.subTest(block.place):
                path = self.folder(block.document) / (block.detail if "." in block.detail
                                                      else "part.yaml")
                path.write_text(WHOLE.get(block.detail, "") + block.text)
                self.run_block(block, [str(BIN / "rt"), "plan", str(path)], self.env)

    def test_python(self) -> None:
        for block in BLOCKS:
            if block.language == "python" and not block.not_run:
                with self.subTest(block.place):
                    self.run_block(block, ["python3", "-c", block.text]
                                   if "." not in block.detail else ["python3", block.detail],
                                   self.env)

    def test_shell(self) -> None:
        for block in BLOCKS:
            if block.language != "sh" or block.not_run:
                continue
            with self.subTest(block.place):
                env = dict(self.env)
                if "rt up" in block.text or "python" in block.text:  # A cluster of its own.
                    env.pop("RT_CLUSTER")
                    env["RT_HOME"] = str(self.folder(block.document) / "home")
                    self.addCleanup(self.end_all, self.folder(block.document) / "home")
                self.run_block(block, ["bash", "-euo", "pipefail", "-c", block.text], env)

    def end_all(self, home: pathlib.Path) -> None:
        """What a block that failed left behind."""
        for pid in processes_of(home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


if __name__ == "__main__":
    unittest.main()
