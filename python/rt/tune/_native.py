"""Ray's search classes, each of which runs an algorithm of the head: the table, and their base.

A class of Ray names a library. rt has one algorithm for each of them in the head, where it survives
restarts and proposes without a round trip to the script. A search says in one line which it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, cast

from rt import _algorithms
from rt._encode import encode_space, has_variables, json_config
from rt._json import flatten, shown
from rt._seeds import as_seed
from rt.tune._optimizer import Optimizer
from rt.tune._repeater import Repeater
from rt.tune._search_generator import SearchGenerator
from rt.tune._searchers import (
    FINISHED,
    LIBRARIES,
    ConcurrencyLimiter,
    HeadSearch,
    SearchAlgorithm,
    Searcher,
    create_searcher,
)


class Native(NamedTuple):
    """What runs for a class of Ray. algorithm: its name in the head; in_ray: what the class is."""

    algorithm: str
    in_ray: str


NATIVE = {
    "AxSearch": Native("gp", "Bayesian optimisation of the library Ax"),
    "BayesOptSearch": Native("gp", "a Gaussian process of the library bayesian-optimization"),
    "HEBOSearch": Native("gp", "a Gaussian process of the library HEBO"),
    "HyperOptSearch": Native("tpe", "the tree-structured Parzen estimator of HyperOpt"),
    "NevergradSearch": Native("auto", "an optimizer of the library Nevergrad"),
    "OptunaSearch": Native("tpe", "the tree-structured Parzen estimator of Optuna"),
    "TuneBOHB": Native("bohb", "the density estimator of BOHB"),
    "ZOOptSearch": Native("tpe", "the classifier of the library ZOOpt"),
}

_ALWAYS_THERE = "tpe"
_FOR_SEVERAL = "auto"  # Objectives.


class RaySearch(Searcher):
    """A search class of Ray. Subclasses have Ray's arguments and pass them on in rt's terms.

    space: the search's own space, in place of that of the Tuner; None: the Tuner's. points:
    configurations that the first trials use. rewards: the values of the first of them, which are
    then not run. options: of the algorithm, those that it does not have are left out. unused:
    arguments that only the library of Ray's class knows. They are named, and change nothing.
    """

    def __init__(
        self,
        space: Optional[dict[str, Any]] = None,
        metric: Any = None,
        mode: Any = None,
        points: Optional[Sequence[dict[str, Any]]] = None,
        rewards: Optional[Sequence[Any]] = None,
        seed: Any = None,
        options: Optional[dict[str, Any]] = None,
        unused: Optional[dict[str, Any]] = None,
    ) -> None:
        super().__init__(metric, mode)
        self.space = space
        self.points = list(points or [])
        if not all(isinstance(point, dict) for point in self.points):
            raise ValueError("points_to_evaluate must be a list of dicts")
        self.seed = as_seed(seed)
        self._options = dict(options or {})
        self._unused = [name for name, value in (unused or {}).items() if value]
        self._evaluated: list[tuple[dict[str, Any], Any]] = []
        self._chosen: Optional[HeadSearch] = None
        self._asks: Optional[Optimizer] = None  # Where the script asks the algorithm.
        self._asked: dict[str, int] = {}
        rewards = list(rewards or [])
        if len(rewards) > len(self.points):
            raise ValueError(
                f"evaluated_rewards has {len(rewards)} values for {len(self.points)} points"
            )
        for point, reward in zip(self.points, rewards):
            self.add_evaluated_point(point, reward)
        self.points = self.points[len(rewards) :]

    @property
    def native(self) -> Native:
        """What runs in its place."""
        return NATIVE[type(self).__name__]

    def note(self) -> str:
        """One line that says what runs."""
        name, native = type(self).__name__, self.native
        table = self._table()
        text = f"{name} (in Ray: {native.in_ray}) runs {table['name']!r} of rt: {table['meaning']}"
        if self._unused:
            text += f". Arguments of the library that change nothing: {', '.join(self._unused)}"
        return text

    def chosen(self) -> SearchAlgorithm:
        """The algorithm of the head."""
        if self._chosen is None:
            known: dict[str, Any] = {}
            if self._evaluated:
                known["evaluated"] = self._known_results()
            made = HeadSearch(
                self._table(),
                points_to_evaluate=self.points,
                max_concurrent=self.max_concurrent,
                random_state=self.seed,
                **known,
                **self._known_options(),
            )
            made.metric, made.mode = self._metric, self._mode
            self._chosen = made
        return self._chosen

    def _table(self) -> _algorithms.Table:
        """That of the algorithm, or of TPE where the program `rt` is of an earlier release."""
        several = isinstance(self._metric, list) and len(self._metric) > 1
        for name in (_FOR_SEVERAL if several else self.native.algorithm, _ALWAYS_THERE):
            table = _algorithms.find("search", name)
            if table is not None:
                return table
        raise ValueError(
            f"this program `rt` has no {_ALWAYS_THERE}: install the release of this package"
        )

    def _known_results(self) -> list[dict[str, Any]]:
        return [
            {"config": json_config(point), "value": None if value != value else value}
            for point, value in self._evaluated
        ]

    def _known_options(self) -> dict[str, Any]:
        known = {str(option["name"]) for option in self._table()["options"]}
        return {name: value for name, value in self._options.items() if name in known}

    # The script asks the algorithm: inside a Repeater or a batch, and with rewards.

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Takes the space of the search unless it has its own."""
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self.space is not None:
            return False
        self.space = config
        return True

    def suggest(self, trial_id: str) -> Any:
        """The next configuration of the algorithm, or FINISHED."""
        trial = self._optimizer().ask()
        if trial is None:
            return FINISHED
        self._asked[trial_id] = trial.number
        return copy.deepcopy(trial.config)

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Passes the value on to the algorithm."""
        number = self._asked.pop(trial_id, None)
        if number is None:
            return
        value = flatten(result or {}).get(self._metric)
        if error or not isinstance(value, (int, float)) or not math.isfinite(value):
            self._optimizer().tell(number, error="no value")
        else:
            self._optimizer().tell(number, value)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: Any,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Optional[list[float]] = None,
    ) -> None:
        """Adds a result from another source; it has to come before the search begins."""
        several = isinstance(value, (list, tuple))
        try:
            known: Any = [float(each) for each in value] if several else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"the value of a known result must be a number, not {shown(value)}"
            ) from None
        self._evaluated.append((dict(parameters), math.nan if error else known))
        self._chosen = None

    def _optimizer(self) -> Optimizer:
        if self._asks is None:
            if not self.space:
                raise ValueError(f"{type(self).__name__} has no search space")
            self._asks = Optimizer(
                self.space, mode=self._mode or "max", algorithm=self._algorithm(), seed=self.seed
            )
            for point, value in self._evaluated:
                self._asks.add(point, value)
        return self._asks

    def _algorithm(self) -> HeadSearch:
        return HeadSearch(self._table(), points_to_evaluate=self.points, **self._known_options())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_asks": None, "_chosen": None}


class AskedSearch(RaySearch):
    """An algorithm of the head that the script asks: inside a Repeater or a batch."""

    def __init__(self, head: HeadSearch) -> None:
        super().__init__(metric=head.metric, mode=head.mode, seed=head.seed)
        self._head = head

    def note(self) -> str:
        """One line that says what runs."""
        (name,) = self._head.to_spec()
        return f"the script asks {name!r} of rt, which sees the values at the ends of trials only"

    def chosen(self) -> SearchAlgorithm:
        """The algorithm of the head."""
        return self._head

    def _algorithm(self) -> HeadSearch:
        return self._head


def asked(search: SearchAlgorithm) -> Searcher:
    """The searcher that asks an algorithm of the head, unless it is a searcher already."""
    return AskedSearch(search) if isinstance(search, HeadSearch) else cast("Searcher", search)


def inner_search(search: Any) -> Any:
    """The search inside what is around it: limiters, repeaters, a SearchGenerator."""
    if isinstance(search, str):
        return create_searcher(search) if search.lower() in LIBRARIES else search
    while isinstance(search, (ConcurrencyLimiter, Repeater, SearchGenerator)):
        search = search.searcher
    return search


def notes_of_search(search: Any) -> list[str]:
    """What a user is told about the algorithm that runs for a class of Ray."""
    found = inner_search(search)
    return [found.note()] if isinstance(found, RaySearch) else []


def space_of(search: Any, space: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
    """The space of a search whose searcher may have its own; the constants of both are kept.

    Raises ValueError when both have variables, and they are not the same.
    """
    found = inner_search(search)
    own = found.space if isinstance(found, RaySearch) else None
    if not isinstance(own, dict) or found.chosen() is found:
        return space
    for key, value in (space or {}).items():
        given, theirs = {key: value}, {key: own.get(key)}
        if has_variables(given) and encode_space(given) != encode_space(theirs):
            raise ValueError(
                f"{type(found).__name__} has a space of its own; {key!r} is a variable of another: "
                "leave only constants in the configuration, or leave out `space`"
            )
    return {**(space or {}), **own}
