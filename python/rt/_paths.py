"""Ray's module paths: modules that only name what lives elsewhere, made from one table each.

`from rt.tune.tuner import Tuner` finds the entry that `alias` put into sys.modules: importing
`rt.tune` comes first, and makes them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType


def alias(sources: Iterable[ModuleType], table: Mapping[str, Iterable[str]]) -> None:
    """Makes every module of the table, whose names are taken from the first source that has them.

    Parents must be there, or stand before their children in the table.
    """
    found = list(sources)
    for path, names in table.items():
        module = ModuleType(path, "A module path of Ray; what it names lives elsewhere.")
        for name in names:
            setattr(module, name, next(getattr(s, name) for s in found if hasattr(s, name)))
        sys.modules[path] = module
        parent, _, last = path.rpartition(".")
        setattr(sys.modules[parent], last, module)
