"""What executors import in advance."""

from __future__ import annotations

import sys

from rt._pack import read_sources

_STANDARD: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())


def modules_of_main() -> list[str]:
    """The installed packages that the script has imported: executors import them in advance."""
    found = set()
    main = sys.modules.get("__main__")
    own = set(read_sources())
    for value in list(vars(main).values()) if main is not None else []:
        name = getattr(value, "__name__", "") if isinstance(value, type(sys)) else getattr(
            value, "__module__", "")  # fmt: skip
        root = str(name or "").partition(".")[0]
        if root and root not in _STANDARD and root not in own and root not in ("__main__", "rt"):
            found.add(root)
    return sorted(each for each in found if each in sys.modules)
