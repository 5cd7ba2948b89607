"""Runs Ray's own tests of tasks and actors against rt, with the import changed. Not part of CI.

    RT_BIN=build/release/bin build/venv/bin/python tests/ray/core_tests.py --clone URL [NAME...]
    … --ray DIR [NAME...]

URL is a repository of Ray, whose tests are fetched into a temporary directory (`--ref` names a
branch or tag). DIR is a checkout that is there already. Nothing of it is kept here. Of each test
file that `FILES` names it takes the test functions that use documented names only, writes them into
a temporary directory with `import rt as ray`, and runs them with the fixtures of `ray_fixtures.py`.
`--list` prints what is left out, each with its reason, and runs nothing. NAME is a file or a
function. The exit code is 0 when at least `--at-least` functions pass (default 40).
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional, Union

sys.path.insert(0, str(Path(__file__).resolve().parent))

from left_out import LEFT_OUT

HERE = Path(__file__).resolve().parent
FILES = (
    "basic*", "actor*", "advanced*", "wait*", "cancel*", "generators*", "async*", "get_*",
)  # fmt: skip

# What rt does not have, by what the text of a test function or of its helpers names.
UNDOCUMENTED = (
    r"ray\._\w+", r"ray\.worker\b", r"ray\.cluster_utils", r"ray\.state\b", r"ray\.internal",
    r"ray\.experimental", r"ray\.job_config|JobConfig", r"ray\.dashboard", r"ray\.autoscaler",
    r"ray\.util\.(?!ActorPool|queue)[a-z_.]+", r"ray\.client\b", r"ray\.available_resources_per",
    r"_system_config", r"_raylet", r"runtime_env", r"object_store_memory", r"_memory\b",
    r"init_error_pubsub|get_error_message", r"gcs_\w+", r"psutil", r"kill_actor_and_wait",
    r"run_string_as_driver\w*", r"memory_summary", r"ray_constants", r"placement_group",
    r"AgentManager|raylet", r"__ray_\w+__", r"\._metadata|\._function\b|\._ray_\w+",
    r"PlacementGroup\w*|NodeAffinity\w*|scheduling_strategy", r"concurrency_group\w*",
    r"local_mode", r"redis", r"list_(actors|tasks|nodes)\b", r"_internal_kv\w*",
    r"_num_returns",
    r"is_direct_call|object_ref\.hex",
    r"ActorGroup", r"\._remote\b", r"as_instanceof_cause", r"_ActorClassMethod\w+",
    r"get_or_create_event_loop|is_async_func", r"\bRAY_\w+|HEAD_NODE\w+", r"call_ray_\w+",
    r"_on_completed", r"ray\.runtime_context\b", r"label_selector", r"fallback_strategy",
    r"has_async_methods|sync_to_async", r"ray\.ObjectID\b",
    r"import ray\b|from ray\b", r"DeferSigint|sys\.path_hooks",
    r"check_call_\w+", r"setproctitle", r"\bmock\b", r"cluster_not_supported",
    r"ray\.nodes\(\)\[0\]\[\"(?!Alive|NodeID)",
)  # fmt: skip
PROVIDED = {
    "ray_start_regular", "ray_start_regular_shared", "ray_start_2_cpus", "ray_start_10_cpus",
    "ray_start_shared_local_modes", "shutdown_only", "tmp_path", "monkeypatch", "request",
    "capsys", "save_gpu_ids_shutdown_only", "shutdown_only_with_initialization_check",
}  # fmt: skip

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="a file (test_basic) or a test function")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--ray", type=Path, help="a checkout of Ray")
    source.add_argument("--clone", metavar="URL", help="a repository of Ray, to be fetched from")
    parser.add_argument("--ref", default="master", help="the branch or tag of --clone")
    parser.add_argument("--list", action="store_true", help="print what is left out, and why")
    parser.add_argument("--at-least", type=int, default=40, help="functions that must pass")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rt-ray-") as fetched:
        if given.clone:
            given.ray = Path(fetched)
            _fetch(given.clone, given.ref, given.ray)
        return _run_from(given.ray / _TESTS, parser, given)


_TESTS = Path("python/ray/tests")


def _fetch(url: str, ref: str, into: Path) -> None:
    """The tests of one commit, without history and without the rest of Ray."""
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", "--filter=blob:none", "--no-checkout", "--branch",
         ref, url, str(into)], check=True)  # fmt: skip
    subprocess.run(["git", "-C", str(into), "checkout", "--quiet", "HEAD", "--", str(_TESTS)],
                   check=True)  # fmt: skip


def _run_from(
    directory: Path, parser: argparse.ArgumentParser, given: argparse.Namespace
) -> int:
    """Returns the exit code."""
    paths = sorted({path for each in FILES for path in directory.glob(f"test_{each}.py")})
    if not paths:
        parser.error(f"{directory} has no tests of Ray: --ray names the top of its checkout")
    with tempfile.TemporaryDirectory(prefix="rt-ray-tests-") as made:
        taken, left = 0, 0
        for path in paths:
            names, reasons = _take(path, Path(made), given.names)
            taken, left = taken + len(names), left + len(reasons)
            for name, reason in sorted(reasons.items()) if given.list else ():
                print(f"{path.stem}::{name}: {reason}")
        print(f"{taken} test functions are taken, {left} are left out", flush=True)
        return 0 if given.list or not taken else _run(Path(made), given)


def _run(made: Path, given: argparse.Namespace) -> int:
    env = {**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parents[1] / 'python'}", "RT_CLUSTER": ""}
    argv = [sys.executable, "-m", "pytest", "-v", "-rfEs", "-p", "ray_fixtures", "--tb=short",
            "-p", "no:cacheprovider", "--capture=fd", "."]  # fmt: skip
    count = 0
    with subprocess.Popen(argv, cwd=made, env=env, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith("RT_FUNCTIONS_PASSED "):
                count = int(line.split()[1])
    print(f"{count} of Ray's test functions pass")
    return 0 if given.names or count >= given.at_least else 1


def _take(path: Path, made: Path, wanted: list[str]) -> tuple[list[str], dict[str, str]]:
    """Writes a file with what can run. (names that were taken, reasons of those that were not)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    helpers = _helpers(tree)
    taken, reasons = [], {}
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not node.name.startswith("test_"):
            continue
        if wanted and path.stem not in wanted and node.name not in wanted:
            continue
        reason = LEFT_OUT.get(f"{path.stem}::{node.name}") or _obstacle(node, helpers)
        if reason is None:
            taken.append(node.name)
        else:
            reasons[node.name] = reason
    if taken:
        _write(tree, helpers, taken, made / path.name)
    return taken, reasons


def _helpers(tree: ast.Module) -> dict[str, ast.stmt]:
    """What the file defines besides tests and fixtures of ours, by name."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if getattr(node, "name", None) in PROVIDED:
            continue  # Ours ends a cluster that tests share.
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            for each in node.targets:
                if isinstance(each, ast.Name):
                    found[each.id] = node
    return found


def _needed(node: ast.AST, helpers: dict[str, ast.stmt]) -> list[ast.stmt]:
    """The helpers that it uses, and those that these use."""
    found: list[ast.stmt] = []
    open_nodes: list[ast.AST] = [node]
    while open_nodes:
        for each in ast.walk(open_nodes.pop()):
            name = each.id if isinstance(each, ast.Name) else getattr(each, "arg", None)
            helper = helpers.get(name) if isinstance(name, str) else None
            if helper is not None and helper is not node and helper not in found:
                found.append(helper)
                open_nodes.append(helper)
    return found


def _obstacle(node: Function, helpers: dict[str, ast.stmt]) -> Optional[str]:
    """Why the test cannot run here; None: it can."""
    bare = copy.deepcopy(node)
    bare.decorator_list = [each for each in bare.decorator_list if "skipif" not in ast.dump(each)]
    needed = _needed(bare, helpers)
    text = "\n".join(ast.unparse(each) for each in (bare, *needed))
    for each in UNDOCUMENTED:
        named = re.search(each, text)
        if named:
            return f"uses {named.group(0)}, which is not documented for users or not in rt yet"
    own = {name for name, each in helpers.items() if "fixture" in ast.dump(each)}
    given = _parametrized(bare)
    for argument in bare.args.args:
        if argument.arg not in PROVIDED | own | given:
            return f"needs the fixture {argument.arg}, a part of Ray's own clusters"
    return None


def _parametrized(node: Function) -> set[str]:
    found: set[str] = set()
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and "parametrize" in ast.dump(each.func):
            first = each.args[0]
            names = ast.literal_eval(first)
            found.update(names.replace(" ", "").split(",") if isinstance(names, str) else names)
    return found - {"ray_start_cluster", "ray_start_cluster_head", "call_ray_start"}


def _write(tree: ast.Module, helpers: dict[str, ast.stmt], taken: list[str], path: Path) -> None:
    chosen: list[ast.AST] = [helpers[name] for name in taken]
    kept = {id(more) for each in chosen for more in _needed(each, helpers)}
    kept |= {id(each) for each in chosen}
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            body.extend(_imports(node))
        elif id(node) in kept:
            body.append(node)
    for each in body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            each.decorator_list = [
                more for more in each.decorator_list if "skipif" not in ast.dump(more)
            ]
    future = sum(isinstance(each, ast.ImportFrom) and each.module == "__future__" for each in body)
    body.insert(future, ast.parse("import rt as ray").body[0])
    path.write_text(ast.unparse(ast.Module(body, [])) + "\n", encoding="utf-8")


def _imports(node: Union[ast.Import, ast.ImportFrom]) -> list[ast.stmt]:
    """The same import, of rt; helpers of Ray's own tests come from `ray_fixtures.py`."""
    if isinstance(node, ast.Import):
        names = [each for each in node.names if each.name.split(".")[0] not in _LACKING]
        return [ast.Import(names)] if names else []
    module = node.module or ""
    if module == "__future__" or module.split(".")[0] not in _LACKING:
        return [node]
    if module.startswith(_HELPERS):
        names = [each for each in node.names if each.name in _SHIMS]
        return [ast.ImportFrom("ray_fixtures", names, 0)] if names else []
    if module in ("ray", "ray.exceptions", "ray.actor", "ray.util", "ray.util.queue", "ray.types"):
        module = "rt" if module == "ray.types" else module.replace("ray", "rt", 1)
        # One by one: tests that need a name that rt lacks are left out or fail by it.
        return [
            ast.Try(
                [ast.ImportFrom(module, [each], 0)],
                [ast.ExceptHandler(ast.Name("ImportError", ast.Load()), None, [ast.Pass()])],
                [], [],
            )
            for each in node.names
        ]  # fmt: skip
    return []


# Where Ray's own tests keep what they share, in its older and its newer versions.
_HELPERS = ("ray._private.test_utils", "ray._common.test_utils", "ray.test_utils", "ray.tests.")


_LACKING = ("ray", "psutil", "setproctitle", "mock")  # Imports that are changed, or not needed.
_SHIMS = (
    "SignalActor", "Semaphore", "wait_for_condition", "wait_for_pid_to_exit",
    "client_test_enabled", "create_remote_signal_actor", "RayTestTimeoutException", "dicts_equal",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
