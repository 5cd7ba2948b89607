"""SearchGenerator, and the texts of errors, which searchers that are written for Ray import."""

from __future__ import annotations

from typing import Any, Optional

from rt._slips import refuse_class
from rt.tune._searchers import SearchAlgorithm, Searcher

UNRESOLVED_SEARCH_SPACE = (
    "{par} of {cls} has variables of tune that {cls} cannot use as they are; give them to the "
    "Tuner as param_space, from which they are converted"
)
UNDEFINED_SEARCH_SPACE = (
    "{cls} has no search space: give it `space`, or give the Tuner a param_space; now it is {space}"
)
UNDEFINED_METRIC_MODE = (
    "{cls} needs a metric and a mode: give them to it or to TuneConfig; now metric is {metric} and "
    "mode is {mode}"
)


class SearchGenerator(SearchAlgorithm):
    """A Searcher as a search algorithm; in rt it is one already, so the searcher itself runs.

    Raises ValueError for what is not a Searcher.
    """

    def __init__(self, searcher: Searcher) -> None:
        refuse_class("searcher", searcher)
        if not isinstance(searcher, Searcher):
            raise ValueError(f"{type(searcher).__name__} is not a Searcher")
        self.searcher = searcher
        self.seed = searcher.seed
        self.max_concurrent = searcher.max_concurrent

    def chosen(self) -> SearchAlgorithm:
        """What runs for its searcher."""
        return self.searcher.chosen()

    @property
    def metric(self) -> Any:
        """The metric of the searcher."""
        return self.searcher.metric

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Passed to the searcher."""
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Passed to the searcher."""
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Passed to the searcher."""
        self.searcher.on_trial_complete(trial_id, result=result, error=error)
