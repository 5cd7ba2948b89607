"""`pip install ./python` in clean environments, and in a notebook.

The oldest and the newest Python of this machine are tried; RT_INSTALL=full tries each from 3.9 on.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import installed
from harness import BIN, ROOT
from script import PYTHON, Place

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
SEARCH = """
import json, os, sys
import rt
from rt import _driver, tune

def train(config):
    for epoch in range(3):
        tune.report({"loss": config["x"] / (epoch + 1)})

analysis = tune.run(train, config={"x": tune.grid_search([1, 2, 3])}, metric="loss", mode="min",
                    verbose=0)
print(json.dumps({"best": analysis.best_config["x"], "package": os.path.dirname(rt.__file__),
                  "rt": _driver.find_binary(), "version": sys.version.split()[0]}))
"""
DATA = """
import sys
try:
    from rt import data
except ImportError as error:
    sys.exit(str(error))
print(data.range(9).map_batches(lambda batch: {"x": batch["id"] * 2}).take_all()[-1])
"""
IN_CELL = """
from rt import tune

def train(config):
    tune.report({"loss": config["x"]})

analysis = tune.run(train, config={"x": tune.grid_search(list(range(1, 41)))}, metric="loss",
                    mode="min")
print("best", analysis.best_config["x"])
"""


def interpreters() -> dict[str, str]:
    """Version -> path of the Pythons of this machine: in the PATH, and those of pyenv."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = {}
    for version in VERSIONS:
        places = [*sorted(root.glob(f"versions/{version}.*/bin/python")),
                  *filter(None, [shutil.which(f"python{version}")])]
        for place in places:
            asked = "import venv, ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([str(place), "-c", asked], capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip() == version:
                found.setdefault(version, str(place))
    return found


class QuickstartTest(unittest.TestCase):
    def test_what_it_builds_is_all_that_is_installed(self) -> None:
        quickstart = (ROOT / "deploy/quickstart.sh").read_text()
        targets = re.findall(r"--target ([\w -]+)$", quickstart, re.MULTILINE)[0].split()
        build = BIN.resolve().parent
        graph = subprocess.run(["ninja", "-C", str(build), "-t", "graph", *targets],
                               capture_output=True, text=True, check=True).stdout
        made = set(re.findall(r'label="([^"]+)"', graph))
        missing, checked = [], 0
        for rules in build.glob("**/cmake_install.cmake"):
            installed = rf'( OPTIONAL)? FILES "{re.escape(str(build))}/([^"]+)"'
            for optional, path in re.findall(installed, rules.read_text()):
                if optional:
                    continue
                checked += 1
                if not any(each == path or each.startswith(path + "/") for each in made):
                    missing.append(path)
        self.assertGreater(checked, 7)
        self.assertEqual(missing, [], "cmake --install needs what the quick start does not build")


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.wheel = installed.wheel()
        folder = tempfile.TemporaryDirectory(prefix="rt-venv-")
        cls.addClassCleanup(folder.cleanup)
        cls.shared = pathlib.Path(folder.name) / "venv"

    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)
        for name in ("RT_BIN", "PYTHONPATH"):
            self.place.env.pop(name, None)

    def run_clean(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.place.env, cwd=self.place.work, text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, f"{argv}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def install(self, python: str, venv: pathlib.Path) -> None:
        """Makes an environment with nothing but the wheel and what it asks for."""
        self.run_clean(python, "-m", "venv", "--without-pip", str(venv))
        self.pip_install(venv, str(self.wheel))

    def pip_install(self, venv: pathlib.Path, what: str, *options: str) -> None:
        """With the pip of PYTHON: the installation of one in each environment takes 4 s."""
        self.run_clean(str(PYTHON), "-m", "pip", "--python", str(venv / "bin/python"), "install",
                       "--quiet", "--disable-pip-version-check", *options, what)

    def of_this_python(self) -> pathlib.Path:
        """The environment that the tests share."""
        if not self.shared.exists():
            self.install(str(PYTHON), self.shared)
        return self.shared

    def test_the_pythons_of_this_machine(self) -> None:
        pythons = interpreters()
        self.assertTrue(pythons, "no Python from 3.9 to 3.13 is here")
        if os.environ.get("RT_INSTALL") != "full":
            ends = list(pythons)  # In the order of VERSIONS.
            pythons = {version: pythons[version] for version in {ends[0], ends[-1]}}
        script = self.place.write(SEARCH)
        for version, python in pythons.items():
            with self.subTest(version=version):
                venv = self.place.root / "venv"
                self.install(python, venv)
                said = json.loads(self.run_clean(str(venv / "bin/python"), str(script)))
                self.assertEqual(said["best"], 1)
                self.assertTrue(said["version"].startswith(version + "."), said)
                self.assertTrue(said["package"].startswith(str(venv)), said)
                self.assertEqual(said["rt"], str(venv / "bin/rt"))
                self.place.wait_gone()
                shutil.rmtree(venv)

    def test_data_sets_need_an_extra_and_say_so(self) -> None:
        venv = self.of_this_python()
        script = self.place.write(DATA)
        done = subprocess.run([str(venv / "bin/python"), str(script)], env=self.place.env,
                              cwd=self.place.work, text=True, capture_output=True, timeout=60)
        self.assertIn("pip install 'rt[data]'", done.stderr)
        self.pip_install(venv, f"{self.wheel}[data]", "--no-compile")
        said = self.run_clean(str(venv / "bin/python"), str(script))
        self.assertEqual(said, "{'x': 16}\n")

    def test_the_programs_and_their_libraries_come_along(self) -> None:
        venv = self.of_this_python()
        for name in ("rt-cli", "rt-head", "rt-worker"):
            needed = self.run_clean("ldd", str(venv / "bin" / name))
            libraries = [os.path.normpath(path) for path in re.findall(r"=> (/\S+)", needed)]
            ours = [path for path in libraries if path.startswith(str(venv / "lib/rt"))]
            others = {pathlib.Path(path).name.split(".")[0] for path in set(libraries) - set(ours)}
            self.assertGreater(len(ours), 5, libraries)
            self.assertLessEqual(others, {"libc", "libm", "libdl", "libpthread", "librt",
                                          "libresolv"})
        (self.place.work / "cluster.yaml").write_text(
            "cluster_name: c\nprovider: {type: local}\nmax_workers: 1\n")
        self.place.env["RT_HOME"] = str(self.place.root / "home")
        rt = str(venv / "bin/rt")
        self.run_clean(rt, "up", "cluster.yaml")
        self.addCleanup(self.run_clean, rt, "down", "cluster.yaml")
        script = self.place.write(SEARCH)
        self.place.env["PATH"] = f"{venv / 'bin'}:{self.place.env['PATH']}"
        said = json.loads(self.run_clean(rt, "submit", str(script)).splitlines()[-1])
        self.assertEqual(said["best"], 1)

    def test_a_notebook_gets_one_display_that_is_updated(self) -> None:
        book = self.place.work / "search.ipynb"
        book.write_text(json.dumps({
            "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
                {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None,
                 "outputs": [], "source": IN_CELL}]}))
        self.place.env |= {"RT_BIN": str(BIN), "PYTHONPATH": str(ROOT / "python")}
        runner = ("import nbformat, nbclient, sys; book = nbformat.read(sys.argv[1], 4); "
                  "nbclient.NotebookClient(book, timeout=120, kernel_name='python3').execute(); "
                  "nbformat.write(book, sys.argv[1])")
        self.run_clean(str(PYTHON), "-c", runner, str(book))
        outputs = json.loads(book.read_text())["cells"][0]["outputs"]
        shown = [output for output in outputs if output["output_type"] == "display_data"]
        self.assertEqual(len(shown), 1, outputs)
        text = "".join(shown[0]["data"]["text/plain"])
        self.assertRegex(text, r"experiment 1 \S+  COMPLETED")
        self.assertRegex(text, r"100%  40/40 trials")
        self.assertNotIn("\x1b", text)
        said = "".join("".join(output.get("text", "")) for output in outputs)
        self.assertIn("best 1\n", said)
        self.assertLess(len(said.splitlines()), 5, said)


if __name__ == "__main__":
    unittest.main()
