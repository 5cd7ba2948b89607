"""Search algorithms. They run in the head; these objects only describe them."""

from __future__ import annotations

from typing import Any, Optional, Union


class SearchAlgorithm:
    """A description of a search algorithm."""

    max_concurrent: int = 0  # 0: no limit.
    seed: Optional[int] = None


class BasicVariantGenerator(SearchAlgorithm):
    """Grid values crossed with random draws.

    random_state: an integer seed, or None for a fresh one. Raises ValueError for what Ray has and
    rt does not.
    """

    def __init__(
        self,
        points_to_evaluate: Optional[list[dict[str, Any]]] = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: Any = None,
    ) -> None:
        if points_to_evaluate:
            raise ValueError("points_to_evaluate is not available; use grid_search instead")
        if constant_grid_search:
            raise ValueError("constant_grid_search is not available")
        if max_concurrent < 0:
            raise ValueError("max_concurrent must be 0 (no limit) or more")
        if random_state is not None and (not isinstance(random_state, int) or random_state < 0):
            raise ValueError("random_state must be a whole number of 0 or more")
        self.max_concurrent = int(max_concurrent)
        self.seed = random_state


class ConcurrencyLimiter(SearchAlgorithm):
    """At most max_concurrent trials of `searcher` at a time."""

    def __init__(self, searcher: SearchAlgorithm, max_concurrent: int, batch: bool = False) -> None:
        if not isinstance(searcher, SearchAlgorithm):
            raise ValueError(f"{type(searcher).__name__} is not a search algorithm of rt")
        if max_concurrent < 1:
            raise ValueError("max_concurrent must be at least 1")
        if batch:
            raise ValueError("batch is not available")
        self.searcher = searcher
        self.max_concurrent = int(max_concurrent)
        self.seed = searcher.seed


def create_searcher(search_alg: str, **arguments: Any) -> SearchAlgorithm:
    """The algorithm of that name. Raises ValueError that lists the known names."""
    if search_alg.lower() not in ("random", "basic", "variant_generator", "grid"):
        raise ValueError(f"unknown search algorithm {search_alg!r}; known: basic, random, grid")
    return BasicVariantGenerator(**arguments)


def as_search(search: Union[str, SearchAlgorithm, None]) -> SearchAlgorithm:
    """What a user gave as a search algorithm, as one. Raises ValueError for anything else."""
    if search is None:
        return BasicVariantGenerator()
    if isinstance(search, str):
        return create_searcher(search)
    if isinstance(search, SearchAlgorithm):
        return search
    name = type(search).__name__
    raise ValueError(f"{name} is not a search algorithm of rt; known: BasicVariantGenerator")


__all__ = ["BasicVariantGenerator", "ConcurrencyLimiter", "SearchAlgorithm", "create_searcher"]
