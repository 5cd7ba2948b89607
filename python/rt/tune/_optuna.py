"""An Optuna study in the script, for a sampler or a function of the user's own (OptunaSearch)."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

from rt._computed import grids, variables
from rt._json import flatten
from rt._space import Categorical, Domain, Integer

_SIMPLE = (type(None), bool, int, float, str)  # What an Optuna category may be.
_DEFAULT_METRIC = "_metric"  # Of a trainable that returns a number.


class Study:
    """Ask and tell of Optuna, by the ids of trials.

    space: a dict of domains, or of Optuna's distributions, or a function of an Optuna trial that
    returns constants or None. metric, mode: texts, or lists of them. Raises ImportError without
    Optuna, and ValueError for a space that Optuna cannot draw.
    """

    def __init__(
        self,
        space: Union[dict[str, Any], Callable[[Any], Any]],
        metric: Any,
        mode: Any,
        seed: Optional[int],
        sampler: Any,
        name: Optional[str],
        storage: Any,
    ) -> None:
        self._optuna = _load()
        self._function = space if callable(space) else None
        self._choices: dict[str, list[Any]] = {}
        self._space = {} if callable(space) else self._distributions(space)
        self._metrics = metric if isinstance(metric, list) else [metric or _DEFAULT_METRIC]
        modes = mode if isinstance(mode, list) else [mode or "max"] * len(self._metrics)
        if len(modes) != len(self._metrics):
            raise ValueError(f"{len(self._metrics)} metrics have {len(modes)} modes")
        if sampler is None and seed is not None:
            made = self._optuna.samplers
            sampler = (made.TPESampler if len(modes) == 1 else made.NSGAIISampler)(seed=seed)
        self._study = self._optuna.create_study(
            storage=storage,
            sampler=sampler,
            pruner=self._optuna.pruners.NopPruner(),
            study_name=name,
            directions=["minimize" if each == "min" else "maximize" for each in modes],
            load_if_exists=True,
        )
        self._trials: dict[str, Any] = {}

    def add(
        self, points: list[dict[str, Any]], evaluated: list[tuple[dict[str, Any], Any]]
    ) -> None:
        """Trials that come first, and trials whose values are known."""
        for point, value in evaluated:
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            params = self._coded(flatten(point))
            used = {name: self._space[name] for name in params}
            self._study.add_trial(
                self._optuna.trial.create_trial(params=params, distributions=used, values=values)
            )
        for point in points:
            self._study.enqueue_trial(self._coded(flatten(point)))

    def ask(self, trial_id: str) -> dict[str, Any]:
        """A configuration: {"a/b": value} for a nested parameter."""
        if self._function is None:
            trial = self._study.ask(self._space)
            more: Any = {}
        else:
            trial = self._study.ask()
            more = self._function(trial)
            if more is not None and not isinstance(more, dict):
                raise ValueError(
                    "the function of a define-by-run space returns a dict of constants or None, "
                    f"not {type(more).__name__}"
                )
        self._trials[trial_id] = trial
        return {**self._decoded(trial.params), **(more or {})}

    def report(self, trial_id: str, result: dict[str, Any]) -> None:
        """An intermediate value; Optuna takes none with several objectives."""
        value = flatten(result).get(self._metrics[0])
        if len(self._metrics) == 1 and trial_id in self._trials and value is not None:
            self._trials[trial_id].report(value, int(result["training_iteration"]))

    def tell(self, trial_id: str, result: Optional[dict[str, Any]], error: bool) -> None:
        """The end of a trial; without a value, or with NaN, it counts as failed or pruned."""
        trial = self._trials.pop(trial_id, None)
        if trial is None:
            return
        row = flatten(result or {})
        values = [row.get(each) for each in self._metrics]
        states = self._optuna.trial.TrialState
        if error:
            self._study.tell(trial, state=states.FAIL)
        elif any(each is None or each != each for each in values):
            self._study.tell(trial, state=states.PRUNED)
        else:
            self._study.tell(trial, values)

    def _distributions(self, space: dict[str, Any]) -> dict[str, Any]:
        if grids(space):
            raise ValueError("a grid_search in the space: OptunaSearch proposes the values itself")
        found = {
            "/".join(map(str, path)): self._distribution("/".join(map(str, path)), domain)
            for path, domain in variables(space)
            if isinstance(domain, Domain)
        }
        kinds = self._optuna.distributions.BaseDistribution
        own = {name: each for name, each in flatten(space).items() if isinstance(each, kinds)}
        return {**found, **own}

    def _distribution(self, name: str, domain: Domain) -> Any:
        made = self._optuna.distributions
        if isinstance(domain, Categorical):
            values = domain.categories
            if not all(isinstance(each, _SIMPLE) for each in values):
                self._choices[name] = values
                values = list(range(len(values)))
            return made.CategoricalDistribution(values)
        if domain.name.endswith("randn"):
            raise ValueError(f"{name}: Optuna draws from no normal distribution")
        lower, upper = domain.arguments[:2]
        is_log, is_stepped = "log" in domain.name, domain.name.startswith("q")
        step = domain.arguments[2] if is_stepped else None
        if is_log and is_stepped and step != 1:
            raise ValueError(f"{name}: Optuna has no logarithmic range with steps")
        if isinstance(domain, Integer):
            last = upper if is_stepped else upper - 1
            return made.IntDistribution(lower, last, log=is_log, step=step or 1)
        return made.FloatDistribution(lower, upper, log=is_log, step=None if is_log else step)

    def _coded(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._choices[name].index(value) if name in self._choices else value
            for name, value in params.items()
        }

    def _decoded(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._choices[name][value] if name in self._choices else value
            for name, value in params.items()
        }


def _load() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            "OptunaSearch with a sampler, a storage, several objectives or a function as its space "
            "runs Optuna, which is not installed here: pip install optuna"
        ) from error
    return optuna
