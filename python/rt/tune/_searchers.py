"""The classes of rt.tune.search."""

from __future__ import annotations

import inspect
import math
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Optional, Union, cast

from rt import _algorithms
from rt._encode import json_config, json_results
from rt._json import flatten
from rt._missing import explain
from rt._seeds import as_seed
from rt._slips import check_min_or_max, refuse_class, suggests_arguments, whole
from rt._space import grid_search

# Ray's classes with a library's name, and the module that has them; it imports this one.
LIBRARIES = {
    "ax": "AxSearch",
    "bayesopt": "BayesOptSearch",
    "bohb": "TuneBOHB",
    "hebo": "HEBOSearch",
    "hyperopt": "HyperOptSearch",
    "nevergrad": "NevergradSearch",
    "optuna": "OptunaSearch",
    "zoopt": "ZOOptSearch",
}
_OF_LIBRARIES = "rt.tune._ray_searchers"
_OF_SCRIPTS = "rt.tune._native"
FINISHED = "FINISHED"  # The result of suggest() when there are no more configurations.


def _as_points(given: Optional[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    points = list(given or []) if isinstance(given, Iterable) else [given] if given else []
    if not all(isinstance(point, dict) for point in points):
        raise ValueError("points_to_evaluate must be a list of dicts")
    return points


class SearchAlgorithm:
    """The base of all search algorithms."""

    max_concurrent: int = 0  # 0: no limit.
    seed: Optional[int] = None
    needs_metric = False  # The head compares trials by a metric for it.

    def chosen(self) -> SearchAlgorithm:
        """The algorithm that runs for it: itself, or another for a class with a library's name."""
        return self

    def to_spec(self) -> dict[str, Any]:
        """The `search` of an experiment's specification."""
        return {"basic": {}}


@suggests_arguments
class BasicVariantGenerator(SearchAlgorithm):
    """Grid values crossed with random draws.

    points_to_evaluate: configurations, or parts of them, that the first samples use unchanged.
    constant_grid_search: the points of a grid share one random draw. random_state: an integer seed,
    or a generator of NumPy from which a seed is drawn. With None the seed follows np.random.seed or
    random.seed of the script. Raises ValueError for anything else.
    """

    def __init__(
        self,
        points_to_evaluate: Optional[list[dict[str, Any]]] = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: Any = None,
    ) -> None:
        if max_concurrent < 0:
            raise ValueError("max_concurrent must be 0 (no limit) or more")
        self.points = _as_points(points_to_evaluate)
        self.constant_grid_search = bool(constant_grid_search)
        self.max_concurrent = int(max_concurrent)
        self.seed = as_seed(random_state)

    def to_spec(self) -> dict[str, Any]:
        """The `search` of an experiment's specification."""
        basic: dict[str, Any] = {}
        if self.points:
            basic["points"] = [json_config(point) for point in self.points]
        if self.constant_grid_search:
            basic["constant_grid_search"] = True
        return {"basic": basic}


class Searcher(SearchAlgorithm, ABC):
    """The base of your own search algorithm: define suggest, and usually on_trial_complete.

    It runs in the driver. A driver that is run again creates the searcher anew and replays all
    earlier calls to it, in the same order. A searcher that draws at random therefore needs a seed
    to continue in the same state.
    """

    FINISHED = FINISHED

    def __init__(self, metric: Any = None, mode: Any = None) -> None:
        for each in mode if isinstance(mode, list) else [mode]:
            if each not in (None, "min", "max"):
                raise ValueError(f"mode must be 'min' or 'max', not {each!r}")
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> Any:
        """The metric that the search improves."""
        return self.__dict__.get("_metric")

    @property
    def mode(self) -> Any:
        """ "min" or "max"."""
        return self.__dict__.get("_mode")

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Called before the first suggestion; returns whether it uses `config` as its space."""
        return False

    @abstractmethod
    def suggest(self, trial_id: str) -> Any:
        """A configuration, None (not now) or FINISHED."""

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called when the trial reported a row and continues."""

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Called when the trial has ended; result is its last row, or None without one."""

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Optional[list[float]] = None,
    ) -> None:
        """Adds a result from another source. Raises ValueError unless overridden."""
        raise ValueError(f"{type(self).__name__} takes no results from elsewhere")

    def add_evaluated_trials(self, trials_or_analysis: Any, metric: str) -> None:
        """Adds the best value of `metric` of each ended trial of an earlier search."""
        trials = getattr(trials_or_analysis, "trials", trials_or_analysis)
        for trial in trials if isinstance(trials, (list, tuple)) else [trials]:
            values = [flatten(row).get(metric) for row in trial.rows]
            kept = [each for each in values if isinstance(each, (int, float))]
            if trial.status == "ERROR":
                self.add_evaluated_point(trial.evaluated_params, math.nan, error=True)
            elif kept and trial.is_finished():
                self.add_evaluated_point(
                    trial.evaluated_params,
                    min(kept) if self.mode == "min" else max(kept),
                    intermediate_values=kept,
                )

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Whether the searcher limits concurrent trials itself."""
        return False

    def on_pause(self, trial_id: str) -> None:
        """Called when the trial was paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Called when the trial resumes."""

    def get_state(self) -> dict[str, Any]:
        """The state that save() writes: all attributes."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the result of get_state."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Pickles the state into the file."""
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.get_state(), file)

    def restore(self, checkpoint_path: str) -> None:
        """Restores the state from a file that save() wrote."""
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Saves the state in the directory, under a unique name."""
        self.save(os.path.join(checkpoint_dir, f"searcher-state-{session_str}.pkl"))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Restores the newest state in the directory. Raises ValueError when there is none."""
        names = [n for n in os.listdir(checkpoint_dir) if n.startswith("searcher-state-")]
        paths = [os.path.join(checkpoint_dir, name) for name in names]
        if not paths:
            raise ValueError(f"there is no searcher's state in {checkpoint_dir}")
        self.restore(max(paths, key=os.path.getmtime))


@suggests_arguments
class ConcurrencyLimiter(Searcher):
    """At most max_concurrent trials of `searcher` at a time.

    batch: the next trials start only after all trials of a batch have ended.
    """

    def __init__(self, searcher: SearchAlgorithm, max_concurrent: int, batch: bool = False) -> None:
        refuse_class("searcher", searcher)
        if not isinstance(searcher, SearchAlgorithm):
            raise ValueError(f"{type(searcher).__name__} is not a search algorithm of rt")
        most = whole("max_concurrent", max_concurrent, 1)
        if batch and not isinstance(searcher, Searcher):
            if not searcher.needs_metric:
                raise ValueError("batch is for searchers that learn from results")
            searcher = import_module(_OF_SCRIPTS).asked(searcher)
        super().__init__(getattr(searcher, "metric", None), getattr(searcher, "mode", None))
        self.searcher = searcher
        self.max_concurrent = most
        self.batch = batch
        self.seed = searcher.seed
        self.needs_metric = searcher.needs_metric
        self.points = getattr(searcher, "points", [])
        self._chosen: Optional[ConcurrencyLimiter] = None
        self._live: set[str] = set()
        self._done: dict[str, tuple[Optional[dict[str, Any]], bool]] = {}
        self._batch: list[str] = []

    def to_spec(self) -> dict[str, Any]:
        """That of the searcher."""
        return self.searcher.to_spec()

    def chosen(self) -> SearchAlgorithm:
        """A limiter of the algorithm that runs for its searcher; a batch is kept in the script."""
        inner = self.searcher if self.batch else self.searcher.chosen()
        if inner is self.searcher:
            return self
        if self._chosen is None:
            self._chosen = ConcurrencyLimiter(inner, self.max_concurrent)
        return self._chosen

    def _inner(self) -> Searcher:
        assert isinstance(self.searcher, Searcher)
        return self.searcher

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Passed to the searcher."""
        return self._inner().set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> Any:
        """The searcher's suggestion, or None while max_concurrent trials run."""
        held = self._batch if self.batch else self._live
        if len(held) >= self.max_concurrent:
            return None
        suggestion = self._inner().suggest(trial_id)
        if isinstance(suggestion, dict):
            self._live.add(trial_id)
            self._batch.append(trial_id)
        return suggestion

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Passed to the searcher."""
        self._inner().on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Passed to the searcher; with `batch`, once all trials of the batch have ended."""
        if trial_id not in self._live:
            return
        self._live.discard(trial_id)
        if not self.batch:
            return self._inner().on_trial_complete(trial_id, result=result, error=error)
        self._done[trial_id] = (result, error)
        if len(self._done) < self.max_concurrent:
            return None
        for each in self._batch:
            last, failed = self._done[each]
            self._inner().on_trial_complete(each, result=last, error=failed)
        self._batch, self._done = [], {}
        return None

    def on_pause(self, trial_id: str) -> None:
        """Passed to the searcher."""
        self._inner().on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Passed to the searcher."""
        self._inner().on_unpause(trial_id)


class HeadSearch(SearchAlgorithm):
    """A search algorithm of the head that has no class of its own: its name and its options.

    metric, mode: of the search, unless TuneConfig or the scheduler gives them. random_state: its
    seed, which may be named `seed`, too. Raises ValueError for an option that it does not have.
    """

    def __init__(
        self,
        table: _algorithms.Table,
        points_to_evaluate: Optional[list[dict[str, Any]]] = None,
        max_concurrent: int = 0,
        random_state: Any = None,
        metric: Union[str, list[str], None] = None,
        mode: Union[str, list[str], None] = None,
        **options: Any,
    ) -> None:
        if "space" in options:
            raise ValueError("space: give it to the Tuner as param_space, or to tune.run as config")
        if "seed" in options:
            if random_state is not None:
                raise ValueError("seed and random_state are two names of one argument: give one")
            random_state = options.pop("seed")
        check_min_or_max(mode)
        self.metric, self.mode = metric, mode
        self.points = _as_points(points_to_evaluate)
        if self.points:
            options = {**options, "points": [json_config(point) for point in self.points]}
        if "evaluated" in options:
            options["evaluated"] = json_results(options["evaluated"])
        _algorithms.check(table, options)
        self.max_concurrent = whole("max_concurrent", max_concurrent, 0)
        self.seed = as_seed(random_state)
        self.needs_metric = bool(table["needs_metric"])
        self._spec = {str(table["name"]): options}

    def to_spec(self) -> dict[str, Any]:
        """{name: {option: value}}."""
        return self._spec


class _ModelSearch(HeadSearch):
    """A search algorithm of the head that learns from results, and has a class of its own."""

    _algorithm: str  # Its name in the head.

    def __init__(
        self,
        points_to_evaluate: Optional[list[dict[str, Any]]] = None,
        max_concurrent: int = 0,
        random_state: Any = None,
        metric: Union[str, list[str], None] = None,
        mode: Union[str, list[str], None] = None,
        **options: Any,
    ) -> None:
        table = _algorithms.find("search", self._algorithm)
        if table is None:
            raise ValueError(
                f"this program `rt` has no {self._algorithm}: install the release of this package"
            )
        super().__init__(
            table, points_to_evaluate, max_concurrent, random_state, metric, mode, **options
        )


class TPESearch(_ModelSearch):
    """The tree-structured Parzen estimator, in the head: it learns from the trials that have ended.

    metric, mode: of the search, unless TuneConfig or the scheduler gives them; the space is that of
    the search, and may hold anything but a grid.
    points_to_evaluate: configurations, or parts of them, that the first trials use unchanged.
    random_state: as of BasicVariantGenerator. options: those of `tpe` in docs/algorithms.md, such
    as startup_trials=20. Raises ValueError for an option that it does not have.
    """

    _algorithm = "tpe"


class CMAESSearch(_ModelSearch):
    """CMA-ES with a model of the values, in the head: for parameters that are numbers.

    The space has at least one parameter that is a number with a range, at most 100 of them, and no
    grid; a choice without an order is proposed by TPE. The arguments are those of TPESearch.
    options: those of `cmaes` in docs/algorithms.md, such as sigma0=0.2. Raises ValueError for an
    option that it does not have.
    """

    _algorithm = "cmaes"


class GPSearch(_ModelSearch):
    """Bayesian optimisation with a Gaussian process, in the head: for few, expensive trials.

    The space has at most 100 parameters and no grid; best with up to 20. The arguments are those of
    TPESearch. options: those of `gp` in docs/algorithms.md, such as startup_trials=10. Raises
    ValueError for an option that it does not have.
    """

    _algorithm = "gp"


class MobsterSearch(_ModelSearch):
    """A Gaussian process over configurations and rungs, in the head: MOBSTER of Syne Tune.

    For a scheduler with rungs: AsyncHyperBandScheduler or, as in MOBSTER, one that pauses trials.
    It learns from the values at all rungs, also of trials that run or are paused. The space has at
    most 100 parameters and no grid. The arguments are those of TPESearch. options: those of
    `mobster` in docs/algorithms.md, such as startup_trials=10. Raises ValueError for an option that
    it does not have.
    """

    _algorithm = "mobster"


class DEHBSearch(_ModelSearch):
    """Differential evolution of the best trials at one rung, in the head: DEHB.

    For a scheduler with rungs, as HyperBandForBOHB. The space may hold anything but a grid. The
    arguments are those of TPESearch. options: those of `dehb` in docs/algorithms.md, such as
    population_size=10. Raises ValueError for an option that it does not have.
    """

    _algorithm = "dehb"


class AutoSearch(_ModelSearch):
    """Chooses among the others by the space, the scheduler and the number of trials.

    `rt plan` and `rt exp show` say what it chose and why. The space may hold anything but a grid.
    The arguments are those of TPESearch, without options.
    """

    _algorithm = "auto"


def create_searcher(search_alg: str, **arguments: Any) -> SearchAlgorithm:
    """The algorithm of that name. Raises ValueError that lists the known names, and TypeError.

    As in Ray, arguments of other classes are left out, so that names can be swapped.
    """
    if not isinstance(search_alg, str):
        raise TypeError(f"a search algorithm is created by its name, not by {search_alg!r}")
    name = search_alg.lower()
    if name in ("random", "basic", "variant_generator", "grid"):  # As in Ray.
        return BasicVariantGenerator(**_taken(BasicVariantGenerator, arguments))
    if name in LIBRARIES:
        kind: Any = getattr(import_module(_OF_LIBRARIES), LIBRARIES[name])
        is_known = set(arguments) <= set(inspect.signature(kind).parameters)
        if is_known or _algorithms.find("search", name) is None:
            return cast("SearchAlgorithm", kind(**_taken(kind, arguments)))
    elif missing := explain(f"rt.tune.search.{name}"):
        raise ValueError(missing)
    table = _algorithms.find("search", name)
    if table is None:
        known = sorted({"random", "grid", *LIBRARIES, *_algorithms.names("search")})
        near = _algorithms.meant(name, known)
        listed = ", ".join(known)
        raise ValueError(f"unknown search algorithm {search_alg!r}{near}; known: {listed}")
    return HeadSearch(table, **arguments)


def _taken(kind: type, arguments: dict[str, Any]) -> dict[str, Any]:
    module = import_module(_OF_LIBRARIES)
    kinds = [BasicVariantGenerator, *(getattr(module, name) for name in LIBRARIES.values())]
    return _algorithms.arguments_for(kind, kinds, arguments)


def as_search(search: Union[str, SearchAlgorithm, None]) -> SearchAlgorithm:
    """The user's value as a search algorithm. Raises ValueError if it is none."""
    if search is None:
        return BasicVariantGenerator()
    if isinstance(search, str):
        return create_searcher(search).chosen()
    if isinstance(search, SearchAlgorithm):
        return search.chosen()
    refuse_class("search_alg", search)
    name = type(search).__name__
    raise ValueError(
        f"{name} is not a search algorithm of rt; known: BasicVariantGenerator, AutoSearch, "
        "TPESearch, CMAESSearch, GPSearch, MobsterSearch, DEHBSearch, and subclasses of "
        "tune.search.Searcher"
    )


__all__ = [
    "FINISHED",
    "AutoSearch",
    "BasicVariantGenerator",
    "CMAESSearch",
    "ConcurrencyLimiter",
    "DEHBSearch",
    "GPSearch",
    "MobsterSearch",
    "SearchAlgorithm",
    "Searcher",
    "TPESearch",
    "create_searcher",
    "grid_search",
]
