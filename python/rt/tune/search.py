"""Search algorithms.

BasicVariantGenerator, AutoSearch, TPESearch, CMAESSearch, GPSearch, MobsterSearch and DEHBSearch
run in the head. A subclass of Searcher runs in the driver, and the head asks the driver for each
configuration. Optimizer is for loops of your own.
"""

from __future__ import annotations

from rt._space import grid_search
from rt.tune._optimizer import Optimizer, OptimizerTrial
from rt.tune._repeater import Repeater
from rt.tune._search_generator import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    UNRESOLVED_SEARCH_SPACE,
    SearchGenerator,
)
from rt.tune._searchers import (
    FINISHED,
    AutoSearch,
    BasicVariantGenerator,
    CMAESSearch,
    ConcurrencyLimiter,
    DEHBSearch,
    GPSearch,
    HeadSearch,
    MobsterSearch,
    SearchAlgorithm,
    Searcher,
    TPESearch,
    as_search,
    create_searcher,
)

__all__ = [
    "FINISHED",
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "UNRESOLVED_SEARCH_SPACE",
    "AutoSearch",
    "BasicVariantGenerator",
    "CMAESSearch",
    "ConcurrencyLimiter",
    "DEHBSearch",
    "GPSearch",
    "HeadSearch",
    "MobsterSearch",
    "Optimizer",
    "OptimizerTrial",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "TPESearch",
    "as_search",
    "create_searcher",
    "grid_search",
]
