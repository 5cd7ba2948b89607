"""Repeater: several trials with each configuration of a searcher."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, Optional

from rt._json import flatten, shown
from rt._slips import refuse_class, suggests_arguments, whole
from rt.tune._searchers import SearchAlgorithm, Searcher


@suggests_arguments
class Repeater(Searcher):
    """Tries each suggestion `repeat` times, and passes the mean to the searcher.

    set_index: the configuration gets "__trial_index__", 0 to repeat - 1. Failed trials are left out
    of the mean. If all trials failed, the searcher gets a failure. searcher: a Searcher, or an
    algorithm of the head, which the script then asks.
    """

    def __init__(self, searcher: SearchAlgorithm, repeat: int = 1, set_index: bool = True) -> None:
        refuse_class("searcher", searcher)
        if isinstance(searcher, SearchAlgorithm) and searcher.needs_metric:
            searcher = import_module("rt.tune._native").asked(searcher)  # It imports this module.
        if not isinstance(searcher, Searcher):
            raise ValueError(
                f"searcher is a Searcher such as TPESearch() or create_searcher('tpe'), not "
                f"{shown(searcher)}"
            )
        whole("repeat", repeat, 1)
        super().__init__(searcher.metric, searcher.mode)
        self.searcher = searcher
        self.repeat = repeat
        self._set_index = set_index
        self._groups: list[_Group] = []

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Passed to the searcher. Raises ValueError for several objectives: they have no mean."""
        if isinstance(metric, list):
            raise ValueError("a Repeater takes the mean of one metric, and there are several")
        self._metric, self._mode = metric or self._metric, mode or self._mode
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> Any:
        """The newest suggestion while it lacks trials, else a new one."""
        if not self._groups or len(self._groups[-1].trials) >= self.repeat:
            suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                return suggestion
            self._groups.append(_Group(trial_id, suggestion))
        group = self._groups[-1]
        config = dict(group.config)
        if self._set_index:
            config["__trial_index__"] = len(group.trials)
        group.trials[trial_id] = None
        return config

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Records the value; calls the searcher when the last trial of a group has ended."""
        group = next((each for each in self._groups if trial_id in each.trials), None)
        if group is None:
            return
        value = flatten(result or {}).get(self._metric) if not error else None
        group.trials[trial_id] = float(value) if isinstance(value, (int, float)) else math.nan
        values = [each for each in group.trials.values() if each is not None]
        if len(values) < self.repeat:
            return
        kept = [each for each in values if not math.isnan(each)]
        mean = sum(kept) / len(kept) if kept else math.nan
        told = {**(result or {}), str(self._metric): mean} if kept else None
        self.searcher.on_trial_complete(group.first, result=told, error=not kept)


class _Group:
    def __init__(self, first: str, config: dict[str, Any]) -> None:
        self.first = first
        self.config = config
        self.trials: dict[str, Optional[float]] = {}
