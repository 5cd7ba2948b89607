"""Records Ray's public names in tests/data/ray_names.json, with the arguments of what is called.

    python3 -m venv /tmp/ray && /tmp/ray/bin/pip install "ray[tune]"
    python3 tests/python/record_ray_names.py /tmp/ray/lib/python3.*/site-packages/ray

It reads the source, so that modules count whose libraries are not installed. A module has the names
of its __all__, and the classes and functions that it defines; tune.result has its constants, too.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any, Optional

_TARGET = Path(__file__).resolve().parents[1] / "data" / "ray_names.json"
_PACKAGES = ("tune", "train", "air")  # With all their modules; of the others only the first.
_LEFT_OUT = {
    "tests", "examples", "v2", "benchmarks", "execution", "impl", "cli", "experimental",
    "constants", "pb2_utils", "mock", "mock_trainable", "release_test_util", "file_transfer",
    "object_cache", "resource_updater", "serialization",
}  # fmt: skip
_ALSO = ("tune/execution/placement_groups.py",)
_CONSTANTS = "tune.result"  # The module whose constants users import.


def main(root: Path) -> None:
    """Writes the file."""
    paths = {root / "__init__.py", root / "data" / "__init__.py", *(root / each for each in _ALSO)}
    for package in _PACKAGES:
        paths.update(each for each in (root / package).rglob("*.py") if _is_public(each, root))
    modules = {}
    for path in sorted(paths):
        name = _module(path, root)
        names = _names(ast.parse(path.read_text(encoding="utf-8")), name == _CONSTANTS)
        if "air.util" not in name:
            modules[name] = names
    version = next(root.parent.glob("ray-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    lines = [f'{json.dumps(name)}: {json.dumps(modules[name])}' for name in sorted(modules)]
    text = f'{{"version": {json.dumps(version)}, "modules": {{\n' + ",\n".join(lines) + "\n}}\n"
    _TARGET.write_text(text, encoding="utf-8")
    count = sum(map(len, modules.values()))
    print(f"{_TARGET}: {len(modules)} modules, {count} names of Ray {version}")


def _is_public(path: Path, root: Path) -> bool:
    steps = path.relative_to(root).with_suffix("").parts
    return not any(
        step in _LEFT_OUT or (step.startswith("_") and step != "__init__") for step in steps
    )


def _module(path: Path, root: Path) -> str:
    steps = path.relative_to(root).with_suffix("").parts
    return ".".join(step for step in steps if step != "__init__")


def _names(tree: ast.Module, with_constants: bool) -> dict[str, Any]:
    """{name: its arguments, or None}."""
    found: dict[str, Any] = {}
    listed: list[str] = []
    for node in _statements(tree):
        text = ast.unparse(node)
        if text.startswith("__all__") and "[" in text:
            values = ast.walk(node)
            listed += [each.value for each in values if isinstance(each, ast.Constant)]
        elif isinstance(node, (ast.Assign, ast.ImportFrom)) and with_constants:
            words = text.partition(" import ")[2] or text.partition(" = ")[0]
            found.update({each: None for each in words.split(", ") if each.isupper()})
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = _arguments(node)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = _class_arguments(node)
    found = {**dict.fromkeys(each for each in listed if isinstance(each, str)), **found}
    return {name: found[name] for name in sorted(found) if not name.startswith("_")}


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """Those of the module, also inside `if` and `try`."""
    found: list[ast.stmt] = []
    for node in tree.body:
        found.append(node)
        if isinstance(node, (ast.If, ast.Try)):
            found += node.body
    return found


def _class_arguments(node: ast.ClassDef) -> Any:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return _arguments(each)
    if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        return [
            [ast.unparse(each.target), ast.unparse(each.value) if each.value else ""]
            for each in fields
        ]
    return None


def _arguments(node: ast.FunctionDef) -> list[list[str]]:
    """[name, text of the default, or "" without one], in order; "*" and "**" keep their stars."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    found = [[each.arg, _text(value)] for each, value in zip(plain, defaults)]
    if given.vararg:
        found.append([f"*{given.vararg.arg}", ""])
    found += [[each.arg, _text(value)] for each, value in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        found.append([f"**{given.kwarg.arg}", ""])
    return [each for each in found if each[0] not in ("self", "cls") and each[0][0] != "_"]


def _text(value: Optional[ast.expr]) -> str:
    return "" if value is None else ast.unparse(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
