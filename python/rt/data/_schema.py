"""Schema: names and types of a data set's columns."""

from __future__ import annotations

from typing import Any, Optional

from rt.data._executor import InlineExecutor
from rt.data._plan import Node


class Schema:
    """`names`, `types` (of Arrow) and `base_schema`, which is the pyarrow.Schema."""

    def __init__(self, base_schema: Any) -> None:
        self.base_schema = base_schema

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.base_schema.names)

    @property
    def types(self) -> list[Any]:
        """The columns' types, of Arrow."""
        return list(self.base_schema.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and bool(self.base_schema.equals(other.base_schema))

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __repr__(self) -> str:
        width = max([len(name) for name in self.names] + [len("Column")])
        types = [type_name(each) for each in self.types]
        rows = [("Column", "Type"), ("-" * len("Column"), "-" * len("Type"))]
        rows += list(zip(self.names, types))
        return "\n".join(f"{name.ljust(width)}  {kind}" for name, kind in rows)


def type_name(kind: Any) -> str:
    """A type as users read it: "int64", "tensor<double, (2, 3)>"."""
    shape = getattr(kind, "shape", None)
    if shape is not None:
        return f"tensor<{kind.value_type}, ({', '.join(map(str, shape))})>"
    return str(kind)


def schema_of(plan: Node) -> Optional[Schema]:
    """The schema of a plan's rows; runs it up to the first row if need be; None without rows."""
    known = plan.schema()
    if known is not None:
        return Schema(known)
    for _, table in plan.stream(0, 0, plan.block_count(), InlineExecutor()):
        return Schema(table.schema)
    return None


def schema_in_brief(plan: Node) -> str:
    """ "{id: int64}" if that is known without running anything, else "unknown"."""
    known = plan.schema()
    if known is None:
        return "unknown"
    return "{" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in known) + "}"
