"""Changes of a table's columns. All raise ValueError with the columns that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from rt.data._arrow import Table
from rt.data._formats import column_of, format_of


def names_of(cols: Union[str, Sequence[str]]) -> list[str]:
    """The names that a user gave: one, or a list of different ones."""
    names = [cols] if isinstance(cols, str) else list(cols)
    if not names or not all(isinstance(each, str) for each in names):
        raise ValueError(f"columns are named by a text or a list of texts, not {cols!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice: {', '.join(names)}")
    return names


def selected(table: Table, names: list[str]) -> Table:
    """These columns, in this order."""
    missing = [each for each in names if each not in table.column_names]
    if missing:
        raise ValueError(
            f"there is no column {', '.join(map(repr, missing))}; the columns are "
            f"{', '.join(map(repr, table.column_names))}"
        )
    return table.select(names)


def dropped(table: Table, names: list[str]) -> Table:
    """All columns but these."""
    return table.drop_columns(selected(table, names).column_names)


def renamed(table: Table, names: Union[dict[str, str], Sequence[str]]) -> Table:
    """New names: a dict old -> new, or all names in order."""
    if isinstance(names, dict):
        selected(table, list(names))
        return table.rename_columns([names.get(each, each) for each in table.column_names])
    if len(names) != table.num_columns:
        raise ValueError(f"{len(names)} new names were given for {table.num_columns} columns")
    return table.rename_columns(list(names))


def added(table: Table, name: str, fn: Callable[[Any], Any], batch_format: Optional[str]) -> Table:
    """The table with the column that `fn` gives for it, in place of one of that name."""
    title = f"AddColumn({name})"
    column = column_of(fn(format_of(batch_format)(table)), name, title)
    if len(column) != table.num_rows:
        raise ValueError(f"{title}: {len(column)} values for {table.num_rows} rows")
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)
