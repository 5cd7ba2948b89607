"""What a Python file of the package may import: no cycles between files, and the private modules
(`rt._x`) know nothing of the public packages that are built on them."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath

PACKAGE = "python/"
PRIVATE = "rt._"
PUBLIC = ("rt.tune", "rt.train", "rt.air")


def module_of(path: str) -> str:
    parts = PurePosixPath(path.removeprefix(PACKAGE)).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: str, text: str, modules: dict[str, str]) -> dict[str, int]:
    """The package's modules that a file imports, at its top or later, with the line."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module_of(path).split(".")
                up = node.level - (1 if path.endswith("/__init__.py") else 0)
                parts = parts[: len(parts) - up]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            for each in node.names:
                inner = f"{base}.{each.name}"
                names.append(inner if inner in modules else base)
        else:
            continue
        for name in names:
            if name in modules:
                found.setdefault(name, node.lineno)
    return found


def cycle_from(start: str, graph: dict[str, dict[str, int]]) -> list[str]:
    """The shortest way from a module back to itself; empty: there is none."""
    came: dict[str, str] = {}
    queue = [start]
    for module in queue:
        for target in graph[module]:
            if target == start:
                way = [module]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return [*reversed(way), start]
            if target not in came:
                came[target] = module
                queue.append(target)
    return []


def check_python_imports(files: dict[str, str]) -> list[tuple[str, int, str]]:
    """(path, line, what is wrong) of each violation. `files`: path -> text of the whole tree."""
    own = {p: t for p, t in files.items() if p.startswith(PACKAGE + "rt/") and p.endswith(".py")}
    modules = {module_of(path): path for path in own}
    graph = {module_of(path): imports_of(path, text, modules) for path, text in own.items()}
    wrong: list[tuple[str, int, str]] = []
    reported: set[str] = set()
    for module, imports in graph.items():
        for target, line in imports.items():
            if module.startswith(PRIVATE) and target.startswith(PUBLIC):
                wrong.append((modules[module], line, f"{module} may not import {target}"))
        cycle = [] if module in reported else cycle_from(module, graph)
        if cycle:
            reported.update(cycle)
            line = imports[cycle[1]]
            wrong.append((modules[module], line, "imports in a cycle: " + " -> ".join(cycle)))
    return wrong
