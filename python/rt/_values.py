"""Values of a configuration that JSON cannot hold: shown as text there, carried in the pickle.

The table maps a path in the configuration to the pairs (text shown, value) that may stand there.
"""

from __future__ import annotations

from typing import Any, Union

Path = tuple[Union[str, int], ...]
ValueTable = dict[Path, list[tuple[str, Any]]]


def restore_values(config: Any, table: ValueTable) -> Any:
    """`config` with the texts that stand for values replaced by the values; changed in place."""
    for path, pairs in table.items():
        holder = config
        try:
            for step in path[:-1]:
                holder = holder[step]
            found = holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        for text, value in pairs:
            if found == text:
                holder[path[-1]] = value
                break
    return config
