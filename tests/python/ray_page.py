"""Writes docs/ray.md from the tables of the package: what of Ray is there, and what is not.

    PYTHONPATH=python python3 tests/python/ray_page.py
"""

from __future__ import annotations

from pathlib import Path

from rt._missing import ARGUMENTS, GAPS, METHODS, Gap
from rt.tune._native import NATIVE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ray.md"
_TEXT = (Path(__file__).parent / "ray_page.txt").read_text(encoding="utf-8")
_PARTS = _TEXT.split("<!-- table -->\n")


def page() -> str:
    """The text of docs/ray.md."""
    tables = [_searchers(), _gaps(), _methods(), _arguments()]
    parts = [text for pair in zip(_PARTS, tables) for text in pair]
    return "".join([*parts, *_PARTS[len(tables) :]])


def _row(*cells: str) -> str:
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |\n"


def _code(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split())


def _searchers() -> str:
    head = _row("class", "what it is in Ray", "what runs in rt") + _row("---", "---", "---")
    rows = [
        _row(f"`{name}`", each.in_ray, f"`{each.algorithm}`") for name, each in NATIVE.items()
    ]
    return head + "".join(rows)


def _gaps() -> str:
    return "".join(_gap(each) for each in GAPS)


def _gap(gap: Gap) -> str:
    lines = [
        f"  * `rt.{module}`: {_code(names)}\n" if module else f"  * `rt`: {_code(names)}\n"
        for module, names in gap.modules.items()
    ]
    return f"* **{gap.kind[0].upper()}{gap.kind[1:]}.** Instead: {gap.instead}.\n" + "".join(lines)


def _methods() -> str:
    head = _row("class", "attribute", "what works instead") + _row("---", "---", "---")
    rows = [
        _row(f"`{owner}`", f"`{name}`", instead)
        for owner, names in METHODS.items()
        for name, instead in names.items()
    ]
    return head + "".join(rows)


def _arguments() -> str:
    head = _row("class", "argument", "what works instead") + _row("---", "---", "---")
    rows = [
        _row(f"`{owner}`", f"`{name}`", instead)
        for owner, names in ARGUMENTS.items()
        for name, instead in names.items()
    ]
    return head + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
