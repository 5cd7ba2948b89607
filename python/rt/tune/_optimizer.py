"""Ask and tell: the head's search algorithms in any loop of the user's own, without a cluster."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import pickle
import random
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from rt import cloudpickle
from rt._computed import computed, grids, resolve
from rt._driver import BRIDGE_ENDED, BridgeDriver, find_binary
from rt._encode import encode_space, json_config, nest_points, nested_point
from rt._errors import RtError
from rt._json import numbers, shown, unboxed
from rt._seeds import as_seed, draw_seed
from rt._slips import check_space, notes_of_points, place_of_call, whole
from rt._values import restore_values
from rt.tune._pareto import dominates
from rt.tune._searchers import SearchAlgorithm, Searcher, as_search, create_searcher

_FORMAT = 1  # Of what save() writes.
_KEYS = {"metric", "mode", "seed", "space", "search", "trials", "wire", "told"}  # At least.
_MASK = 2**63 - 1
_ASK_MAX = 10_000  # Trials of one request, as in cli/bridge/optimizer.cc.


class OptimizerTrial:
    """A configuration that an Optimizer was asked for, and what came of it.

    number: 0, 1, 2, ... in the order of asking. config: a dict of the space's shape, also called
    params. value: None until it is told, or when the trial has none. error: it was told as failed.
    values: of several objectives and constraints, in their order. intermediate: the values that
    were told with it, in their order. fallback: why the model gave no
    answer and the configuration is one of an even spread instead; empty: it did.
    """

    values: Optional[list[float]] = None
    _optimizer = ""  # By which it was asked for.

    def __init__(
        self, number: int, config: dict[str, Any], fallback: str = "", optimizer: str = ""
    ) -> None:
        self._optimizer = optimizer
        self.number = number
        self.config = config
        self.fallback = fallback
        self.value: Optional[float] = None
        self.error = False
        self.intermediate: list[float] = []

    @property
    def params(self) -> dict[str, Any]:
        """The configuration."""
        return self.config

    def __repr__(self) -> str:
        state = "error" if self.error else self.value
        return f"OptimizerTrial({self.number}, {self.config}, {state})"


@dataclass
class _Outcome:
    error: bool
    value: Optional[float] = None
    values: Optional[list[float]] = None
    intermediate: list[float] = field(default_factory=list)


class Optimizer:
    """Proposes configurations and learns from their results; needs no cluster.

    space: as the param_space of a Tuner. metric: the name under which tell() finds the value in a
    dict; None: it is told as a number. mode: "min" or "max". algorithm: a name that create_searcher
    knows ("random", "tpe", "cmaes", ...), or a search algorithm of the head such as
    TPESearch(startup_trials=20). seed: equal seeds and results give equal configurations; None: it
    follows np.random.seed or random.seed. points_to_evaluate, options: of the algorithm.
    metric and mode may be lists, for several objectives, and constraints is as of TuneConfig.
    tell() takes a dict then, or the values of the objectives and constraints as a list, and
    best_trials has the front.
    Any number of trials may be open at a time, and they may be told in any order, from any thread.
    A grid is used up after its points. It holds a process of `rt` until close(), or the end of a
    `with` block.
    Raises ValueError for a space, an algorithm or an option that is not valid.

    >>> optimizer = Optimizer({"x": tune.uniform(-1, 1)}, mode="min", algorithm="tpe", seed=1)
    >>> for _ in range(50):
    ...     trial = optimizer.ask()
    ...     optimizer.tell(trial, (trial.config["x"] - 0.3) ** 2)
    >>> optimizer.best.config
    """

    _closed = False

    def __init__(
        self,
        space: dict[str, Any],
        metric: Union[str, list[str], None] = None,
        mode: Union[str, list[str], None] = None,
        algorithm: Any = "tpe",
        seed: Optional[int] = None,
        points_to_evaluate: Optional[list[dict[str, Any]]] = None,
        constraints: Optional[dict[str, dict[str, float]]] = None,
        **options: Any,
    ) -> None:
        mode = "min" if mode is None else mode
        if isinstance(metric, list) != isinstance(mode, list):
            raise ValueError("metric and mode: both are lists, or neither is")
        for each in mode if isinstance(mode, list) else [mode]:
            if each not in ("min", "max"):
                raise ValueError(f"mode must be 'min' or 'max', not {each!r}")
        for name in metric if isinstance(metric, list) else [metric]:
            if name is not None and (not isinstance(name, str) or not name):
                raise ValueError(f"metric must be the name of a value, not {name!r}")
        self._takes_lists = isinstance(metric, list)
        if isinstance(metric, list) and isinstance(mode, list) and len(metric) == len(mode) == 1:
            metric, mode = metric[0], mode[0]
        if not isinstance(constraints or {}, dict):
            raise ValueError(
                "constraints is a dict such as {'memory': {'<=': 512}}, "
                f"not {shown(constraints)}"
            )
        self.constraints = dict(constraints or {})
        check_space(space, place_of_call())
        search = _algorithm(algorithm, points_to_evaluate, options)
        unknown = notes_of_points(space, getattr(search, "points", []))
        if unknown:
            raise ValueError("; ".join(unknown))
        given = as_seed(seed) if seed is not None else search.seed
        self.metric, self.mode = metric, mode
        self.seed = draw_seed() if given is None else given
        self.trials: list[OptimizerTrial] = []
        self._space = copy.deepcopy(space)
        self._search = nest_points(search.to_spec(), space)
        self._wire: list[dict[str, Any]] = []  # The configurations as the program proposed them.
        self._told: list[int] = []  # The numbers of told trials, in the order of telling.
        self._id = os.urandom(8).hex()
        self._lock, self._pid, self._is_behind = threading.RLock(), os.getpid(), False
        self._open()

    def _open(self, saved: bool = False) -> None:
        encoded, self._table = encode_space(self._space)
        self._computed = computed(self._space)
        spec = {
            "experiment": "ask-and-tell",
            "command": ["true"],
            "space": encoded,
            "search": self._search,
            "num_samples": 1 if grids(self._space) else -1,
            "metric": self.metric or "value",
            "mode": self.mode,
        }
        if self.constraints:
            spec["constraints"] = self.constraints
        self._bridge = BridgeDriver([find_binary(), "bridge", "--optimize"], embedded=False)
        try:
            self._bridge.call("open", spec=spec, seed=self.seed & _MASK, saved=saved)
        except BaseException:
            self._bridge.close()
            raise

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[None]:
        """The program and this object change together, for one thread at a time.

        Where one of them did not change, as after Ctrl-C, the program is started again before the
        next exchange, and told what this object knows.
        """
        if self._closed:
            raise ValueError("this Optimizer was closed; restore() continues one that was saved")
        if self._pid != os.getpid():
            text = "this Optimizer belongs to the process that made it, not to a fork of it; "
            raise ValueError(text + "ask and tell there, or save() it there and restore() it here")
        with self._lock:
            if self._is_behind:
                self._bridge.close()
                self._open(saved=True)
                self._replay()
            self._is_behind = True
            yield
            self._is_behind = False

    def _replay(self) -> None:
        self._call("add", params=self._wire)
        for number in self._told:
            self._tell(number, self.trials[number].value, self.trials[number].values)

    def _call(self, op: str, **fields: Any) -> Any:
        try:
            return self._bridge.call(op, **fields)
        except Exception as error:
            if not isinstance(error, RtError) or error.code != BRIDGE_ENDED:
                self._is_behind = False  # It refused, and nothing changed.
                raise
            why = str(error).partition(": ")[2]
            text = f"the process of this Optimizer ended{': ' if why else ''}{why}"
            hint = "the next call starts it again, with all that was told"
            raise RtError(text, BRIDGE_ENDED, hint) from None

    def ask(self, n: Optional[int] = None) -> Any:
        """The next trial; with `n`, a list of the next n trials.

        Where a grid is used up the list is shorter, and without `n` the result is None.
        """
        count = 1 if n is None else whole("n", n, least=1)
        if count > _ASK_MAX:
            raise ValueError(f"n must be at most {_ASK_MAX}, not {shown(n)}")
        with self._exchange():
            first = len(self.trials)
            asked = self._call("ask", n=count)["trials"]
            trials = [self._made(first + i, each) for i, each in enumerate(asked)]
            self._wire += [each["params"] for each in asked]
            self.trials += trials
        if n is not None:
            return trials
        return trials[0] if trials else None

    def _made(self, number: int, asked: dict[str, Any]) -> OptimizerTrial:
        config = restore_values(numbers(copy.deepcopy(asked["params"])), self._table)
        if self._computed:
            config = resolve(config, self._computed, random.Random(f"{self.seed}:{number}"))
        return OptimizerTrial(number, config, asked.get("fallback", ""), self._id)

    def tell(
        self,
        trial: Union[OptimizerTrial, int],
        value: Any = None,
        *,
        error: Any = None,
        intermediate: Optional[Iterable[float]] = None,
    ) -> None:
        """Says how a trial ended, once.

        trial: what ask() returned, or its number. value: a number, or a dict that has the metric.
        error: anything true: it failed because of its configuration. intermediate: the values on
        the way, in their order; the best of them and of `value` counts, as in a search on a
        cluster. NaN and infinite values count as no value; a trial without any has failed.
        Raises ValueError for a trial that is not one of these, or was told before.
        """
        known = self._known(trial)
        with self._lock:
            if known.error or known.value is not None or known.values is not None:
                raise ValueError(f"the result of trial {known.number} was told before")
            outcome = self._outcome(value, error, intermediate)
            with self._exchange():
                self._record(known, outcome)

    def _outcome(
        self, value: Any, error: Any, intermediate: Optional[Iterable[float]] = None
    ) -> _Outcome:
        """The arguments of tell() and add(), checked. Raises ValueError if they are invalid."""
        if self._names:
            return self._outcome_of_several(value, error)
        if self._takes_lists and isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        values = _numbers("intermediate", intermediate)
        number = self._number_in(value)
        if number is None and error is None and not values:
            raise ValueError("tell() needs a value, intermediate values, or an error")
        told = values if number is None else [*values, number]
        finite = [each for each in told if math.isfinite(each)]
        best = (min if self.mode == "min" else max)(finite, default=None)
        failed = bool(error) or best is None
        return _Outcome(failed, None if failed else best, intermediate=values)

    def _record(self, known: OptimizerTrial, outcome: _Outcome) -> None:
        self._tell(known.number, None if self._names else outcome.value, outcome.values)
        known.error, known.value, known.values = outcome.error, outcome.value, outcome.values
        known.intermediate = outcome.intermediate
        self._told.append(known.number)

    @property
    def _names(self) -> list[str]:
        """Of the values that decide together: the objectives', then the constraints'."""
        metric = self.metric if isinstance(self.metric, list) else [self.metric or "value"]
        several = isinstance(self.metric, list) and len(self.metric) > 1
        return [*metric, *self.constraints] if several or self.constraints else []

    def _outcome_of_several(self, value: Any, error: Any) -> _Outcome:
        names = self._names
        if isinstance(value, dict):
            lacking = [name for name in names if name not in value]
            if lacking:
                raise ValueError(f"{lacking[0]!r} is not in what was told: {sorted(value)}")
            value = [value[name] for name in names]
        if value is None and error is None:
            raise ValueError("tell() needs the values, or an error")
        if value is not None and (not isinstance(value, (list, tuple)) or len(value) != len(names)):
            raise ValueError(f"the values must be a list of {', '.join(names)}, not {value!r}")
        values = _numbers("the values", value)
        if error or not values or any(map(math.isnan, values)):
            return _Outcome(True)
        counts = not isinstance(self.metric, list) and self._keeps(values[1:])
        return _Outcome(False, values[0] if counts else None, values)

    @property
    def best_trials(self) -> list[OptimizerTrial]:
        """The trials that keep the constraints and that no other one beats in all objectives."""
        modes = self.mode if isinstance(self.mode, list) else [self.mode]
        found = []
        for trial in self.trials:
            values = [trial.value] if trial.values is None else trial.values
            if None in values or not self._keeps(values[len(modes) :]):
                continue
            signed = [v if m == "min" else -v for v, m in zip(values, modes) if v is not None]
            found.append((signed, trial))
        return [trial for mine, trial in found if not any(dominates(o, mine) for o, _ in found)]

    def _keeps(self, values: Sequence[Any]) -> bool:
        for value, bound in zip(values, self.constraints.values()):
            for comparison, limit in bound.items():
                if value > limit if comparison == "<=" else value < limit:
                    return False
        return True

    def _tell(
        self, number: int, value: Optional[float], values: Optional[list[float]] = None
    ) -> None:
        if values is not None:
            self._call("tell", number=number, values=values)
        elif value is None:
            self._call("tell", number=number, error=True)
        else:
            self._call("tell", number=number, value=value)

    def add(
        self, config: dict[str, Any], value: Any = None, *, error: Any = None
    ) -> OptimizerTrial:
        """Adds a trial that was run elsewhere, with its value: the algorithm learns from it.

        config: all parameters of the space, also with flat names ("model/lr"). value, error: as of
        tell(). Nothing is learned from a configuration that lies outside the space, or lacks a
        parameter; a warning says so. Raises ValueError, and adds nothing, if the space does not
        have a parameter, if a whole number is 2.5 or a text, and if the value is not a number.
        """
        if not isinstance(config, dict):
            raise ValueError(f"config is a dict with all parameters, not {shown(config)}")
        others = [str(key) for key in config if key not in self._space]
        unknown = [key for key in others if key.partition("/")[0] not in self._space]
        if unknown:
            raise ValueError(f"config: {', '.join(unknown)} is not in the search space")
        wire = json_config(nested_point(config, self._space))
        outcome = self._outcome(value, error)
        with self._exchange():
            unused = self._call("add", params=[wire], elsewhere=True)["unused"]
            trial = OptimizerTrial(len(self.trials), copy.deepcopy(config), optimizer=self._id)
            self._wire.append({} if unused else wire)
            self.trials.append(trial)
            self._record(trial, outcome)
        if unused:
            text = f"{shown(config)} lies outside the space or lacks a parameter"
            warnings.warn(f"Optimizer.add: {text}; nothing is learned from it", stacklevel=2)
        return trial

    def _known(self, trial: Union[OptimizerTrial, int]) -> OptimizerTrial:
        number = unboxed(trial.number if isinstance(trial, OptimizerTrial) else trial)
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"trial must be what ask() returned, or its number, not {trial!r}")
        if isinstance(trial, OptimizerTrial) and trial._optimizer != self._id:
            raise ValueError(f"trial {number} is of another Optimizer")
        if not 0 <= number < len(self.trials):
            raise ValueError(f"trial {number} was not asked for")
        return self.trials[number]

    def _number_in(self, value: Any) -> Optional[float]:
        if isinstance(value, dict):
            if self.metric is None:
                raise ValueError("a dict was told, and the Optimizer was made without metric=")
            if self.metric not in value:
                raise ValueError(f"{self.metric!r} is not in what was told: {sorted(value)}")
            value = value[self.metric]
        if value is None:
            return None
        try:
            return _float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"the value must be a number, not {shown(value)}") from None

    @property
    def best(self) -> Optional[OptimizerTrial]:
        """The trial with the best value, the earliest of equals; None before the first value."""
        valued = [trial for trial in self.trials if trial.value is not None]
        sign = 1 if self.mode == "min" else -1
        return min(valued, key=lambda trial: sign * (trial.value or 0.0), default=None)

    def save(self, path: str) -> None:
        """Writes everything into the file; restore() continues from it, with open trials open."""
        state = {
            "format": _FORMAT,
            "metric": self.metric,
            "mode": self.mode,
            "seed": self.seed,
            "space": self._space,
            "search": self._search,
            "trials": self.trials,
            "wire": self._wire,
            "told": self._told,
            "constraints": self.constraints,
            "takes_lists": self._takes_lists,
            "id": self._id,
        }
        part = f"{path}.{os.getpid()}.part"
        try:
            with open(part, "wb") as file:
                cloudpickle.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise

    @classmethod
    def restore(cls, path: str) -> Optimizer:
        """An Optimizer that proposes what the saved one would have proposed next.

        Loading a file runs code of whoever wrote it. Raises ValueError for a file of another kind.
        """
        with open(path, "rb") as file:
            try:
                state = pickle.load(file)
            except Exception as error:  # Damaged pickles raise errors of any kind.
                text = f"{path} was not written by Optimizer.save, or is damaged"
                raise ValueError(f"{text}: {str(error) or type(error).__name__}") from None
        if not isinstance(state, dict) or state.get("format") != _FORMAT or _KEYS - state.keys():
            raise ValueError(f"{path} was not written by Optimizer.save of this release")
        self = cls.__new__(cls)
        self.metric, self.mode, self.seed = state["metric"], state["mode"], state["seed"]
        self._space, self._search = state["space"], state["search"]
        self.trials, self._wire, self._told = state["trials"], state["wire"], state["told"]
        self.constraints = state.get("constraints", {})
        self._takes_lists = bool(state.get("takes_lists"))
        self._id = state.get("id", "")
        self._lock, self._pid, self._is_behind = threading.RLock(), os.getpid(), False
        self._open(saved=True)
        self._replay()
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an Optimizer cannot be pickled or copied: it has a process; use save()")

    def close(self) -> None:
        """Ends the process of `rt`; safe to repeat."""
        self._closed = True
        self._bridge.close()

    def __enter__(self) -> Optimizer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _float(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("a text, as in a search on a cluster")
    return float(value)


def _numbers(name: str, values: Optional[Iterable[Any]]) -> list[float]:
    """The floats of what may be a list. Raises ValueError for anything else."""
    try:
        return [_float(each) for each in values or ()]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a list of numbers, not {shown(values)}") from None


def _algorithm(
    algorithm: Any, points: Optional[Sequence[Any]], options: dict[str, Any]
) -> SearchAlgorithm:
    given = {**options, **({"points_to_evaluate": list(points)} if points else {})}
    if isinstance(algorithm, str):
        return _of_head(create_searcher(algorithm, **given).chosen())
    if given:
        names = ", ".join(sorted(given))
        raise ValueError(f"{names}: give it to the algorithm, {type(algorithm).__name__}(...)")
    return _of_head(as_search(algorithm))


def _of_head(search: SearchAlgorithm) -> SearchAlgorithm:
    if isinstance(search, Searcher):
        raise ValueError(
            f"{type(search).__name__} has suggest() and on_trial_complete() of its own: call them"
        )
    return search


__all__ = ["Optimizer", "OptimizerTrial"]
