"""Source: where the rows of a data set come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

from rt.data._arrow import Table


class Source:
    """Where rows come from. Every process that has the source must be able to read every block."""

    in_memory = False  # Reading takes no time worth a thread.
    title = ""

    def block_count(self) -> int:
        """The number of blocks. Raises FileNotFoundError when there is nothing to read."""
        raise NotImplementedError

    def read(self, block: int) -> Iterator[Table]:
        """The tables of a block, in order; each is at most about a block in size."""
        raise NotImplementedError

    def counts(self) -> Optional[list[int]]:
        """Rows per block if that is known without reading them."""
        return None

    def schema(self) -> Optional[Any]:
        """The Arrow schema if that is known without reading rows."""
        return None

    def bytes_estimate(self) -> int:
        """About the size of all rows in memory. It must be the same in every process."""
        raise NotImplementedError

    def identity(self) -> str:
        """What a position refers to: another text means other rows."""
        raise NotImplementedError
