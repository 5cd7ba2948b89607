"""Ray's search classes with their arguments and defaults; _native.py says what they run."""

from __future__ import annotations

from typing import Any, Optional

from rt._slips import suggests_arguments, whole
from rt.tune import _foreign_spaces as foreign
from rt.tune._native import RaySearch
from rt.tune._optuna import Study
from rt.tune._searchers import SearchAlgorithm

Points = Optional[list[dict[str, Any]]]
# What the authors' program calls them, and what `bohb` does.
_BOHB_OPTIONS = {
    "min_points_in_model": "rows_min",
    "top_n_percent": "good_fraction",
    "num_samples": "candidates",
    "random_fraction": "random_fraction",
}


@suggests_arguments
class OptunaSearch(RaySearch):
    """Optuna's name for a native algorithm. Optuna itself runs only where that is asked for.

    That is: with a sampler, a storage, or a space that is a function of a trial (define-by-run). It
    then runs in the script, and `pip install optuna` is needed. metric and mode may be lists:
    several objectives. Raises ValueError for arguments that do not fit each other.
    """

    def __init__(
        self,
        space: Any = None,
        metric: Any = None,
        mode: Any = None,
        points_to_evaluate: Points = None,
        sampler: Any = None,
        study_name: Optional[str] = None,
        storage: Any = None,
        seed: Optional[int] = None,
        evaluated_rewards: Optional[list[Any]] = None,
    ) -> None:
        if isinstance(space, list):
            raise ValueError("space: a dict, or a function of an Optuna trial, not a list")
        if callable(space) and (points_to_evaluate or evaluated_rewards):
            raise ValueError("points_to_evaluate needs a space that is a dict, not a function")
        if isinstance(mode, list) != isinstance(metric, list) and mode and metric:
            raise ValueError("metric and mode: both are lists, or neither is")
        self.sampler, self.storage, self.study_name = sampler, storage, study_name
        self.uses_optuna = bool(callable(space) or sampler is not None or storage is not None)
        self.study: Optional[Study] = None
        super().__init__(
            space=space if self.uses_optuna else foreign.from_optuna(space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            rewards=evaluated_rewards,
            seed=seed,
        )

    def note(self) -> str:
        """One line that says what runs."""
        if self.uses_optuna:
            return "OptunaSearch runs Optuna itself, in this script, as its arguments ask for"
        return super().note()

    def chosen(self) -> SearchAlgorithm:
        """This object where Optuna runs, else the algorithm of the head."""
        return self if self.uses_optuna else super().chosen()

    def suggest(self, trial_id: str) -> Any:
        """The next configuration."""
        return self._study().ask(trial_id) if self.uses_optuna else super().suggest(trial_id)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Passes an intermediate value on to Optuna."""
        if self.uses_optuna:
            self._study().report(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Passes the value on."""
        if self.uses_optuna:
            self._study().tell(trial_id, result, error)
        else:
            super().on_trial_complete(trial_id, result, error)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: Any,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Optional[list[float]] = None,
    ) -> None:
        """Adds a result from another source; it has to come before the search begins."""
        if self.uses_optuna:
            self._evaluated.append((dict(parameters), value))
        else:
            super().add_evaluated_point(parameters, value, error, pruned, intermediate_values)

    def _study(self) -> Study:
        if self.study is None:
            if not self.space:
                raise ValueError("OptunaSearch has no search space")
            self.study = Study(
                self.space, self._metric, self._mode, self.seed, self.sampler, self.study_name,
                self.storage,
            )  # fmt: skip
            self.study.add(self.points, self._evaluated)
        return self.study


@suggests_arguments
class HyperOptSearch(RaySearch):
    """HyperOpt's name for a native algorithm. space: of tune's primitives."""

    def __init__(
        self,
        space: Optional[dict[str, Any]] = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
        n_initial_points: int = 20,
        random_state_seed: Optional[int] = None,
        gamma: float = 0.25,
    ) -> None:
        super().__init__(
            space=foreign.of_tune("HyperOptSearch", space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            seed=random_state_seed,
            options={"startup_trials": whole("n_initial_points", n_initial_points, 0)},
            unused={"gamma": gamma != 0.25},
        )


@suggests_arguments
class BayesOptSearch(RaySearch):
    """The name of the library bayesian-optimization for a native algorithm.

    space: {name: (lower, upper)} or tune's primitives, of any kind. No configuration is proposed
    twice, so `patience` and `skip_duplicate` have nothing to do. analysis: an earlier search, whose
    results are used.
    """

    def __init__(
        self,
        space: Optional[dict[str, Any]] = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
        utility_kwargs: Optional[dict[str, Any]] = None,
        random_state: int = 42,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int = 5,
        skip_duplicate: bool = True,
        analysis: Any = None,
        repeat_float_precision: int = 5,
    ) -> None:
        super().__init__(
            space=foreign.from_bounds(space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            seed=random_state,
            options={"startup_trials": whole("random_search_steps", random_search_steps, 0)},
            unused={"utility_kwargs": utility_kwargs},
        )
        if analysis is not None:
            self.register_analysis(analysis)

    def register_analysis(self, analysis: Any) -> None:
        """Adds the results of an earlier search. Raises ValueError without a metric."""
        if not self.metric:
            raise ValueError("analysis: give metric and mode as well")
        self.add_evaluated_trials(analysis, self.metric)


@suggests_arguments
class TuneBOHB(RaySearch):
    """BOHB's name for a native algorithm; use it with HyperBandForBOHB or ASHAScheduler.

    space: of tune's primitives, or a ConfigSpace of numbers and categories. bohb_config: the
    arguments of the model of BOHB, such as {"random_fraction": 0.2}.
    """

    def __init__(
        self,
        space: Any = None,
        bohb_config: Optional[dict[str, Any]] = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
        seed: Optional[int] = None,
        max_concurrent: int = 0,
    ) -> None:
        config = dict(bohb_config or {})
        options = {
            ours: value if theirs != "top_n_percent" else value / 100
            for theirs, ours in _BOHB_OPTIONS.items()
            if (value := config.pop(theirs, None)) is not None
        }
        super().__init__(
            space=foreign.from_config_space(space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            seed=seed,
            options=options,
            unused={f"bohb_config[{name!r}]": True for name in config},
        )
        self.max_concurrent = whole("max_concurrent", max_concurrent, 0)


class AxSearch(RaySearch):
    """Ax's name for a native algorithm. space: of tune's primitives, or Ax's list of parameters.

    Raises ValueError for constraints and for a client of the user's own.
    """

    def __init__(
        self,
        space: Any = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
        parameter_constraints: Optional[list[Any]] = None,
        outcome_constraints: Optional[list[Any]] = None,
        ax_client: Any = None,
        **ax_kwargs: Any,
    ) -> None:
        if ax_client is not None:
            raise ValueError(
                "ax_client: rt does not run Ax; a subclass of tune.search.Searcher can ask the "
                "client in suggest(), and complete its trials in on_trial_complete()"
            )
        for name, given in (
            ("parameter_constraints", parameter_constraints),
            ("outcome_constraints", outcome_constraints),
        ):
            if given:
                raise ValueError(
                    f"{name}: rt has no constraints yet; report a bad value of the metric where "
                    "one is violated, or compute a dependent parameter with tune.sample_from"
                )
        super().__init__(
            space=foreign.from_ax(space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            unused=ax_kwargs,
        )


class HEBOSearch(RaySearch):
    """HEBO's name for a native algorithm. space: of tune's primitives."""

    def __init__(
        self,
        space: Any = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
        evaluated_rewards: Optional[list[Any]] = None,
        random_state_seed: Optional[int] = None,
        max_concurrent: int = 8,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            space=foreign.of_tune("HEBOSearch", space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            rewards=evaluated_rewards,
            seed=random_state_seed,
            unused=kwargs,
        )
        self.max_concurrent = whole("max_concurrent", max_concurrent, 1)


@suggests_arguments
class NevergradSearch(RaySearch):
    """Nevergrad's name for a native algorithm. space: of tune's primitives."""

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: Optional[dict[str, Any]] = None,
        space: Any = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
    ) -> None:
        super().__init__(
            space=foreign.of_tune("NevergradSearch", space),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            unused={"optimizer": optimizer is not None, "optimizer_kwargs": optimizer_kwargs},
        )


class ZOOptSearch(RaySearch):
    """ZOOpt's name for a native algorithm. dim_dict: ZOOpt's dimensions, or tune's primitives.

    budget: accepted and not needed; num_samples says how many trials there are. parallel_num: the
    number of trials at a time, above 1.
    """

    def __init__(
        self,
        algo: str = "asracos",
        budget: Optional[int] = None,
        dim_dict: Optional[dict[str, Any]] = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        points_to_evaluate: Points = None,
        parallel_num: int = 1,
        **kwargs: Any,
    ) -> None:
        if algo.lower() not in ("asracos", "sracos"):
            raise ValueError(f"algo must be 'asracos' or 'sracos', not {algo!r}")
        super().__init__(
            space=foreign.from_zoopt(dim_dict),
            metric=metric,
            mode=mode,
            points=points_to_evaluate,
            unused=kwargs,
        )
        self.max_concurrent = parallel_num if parallel_num > 1 else 0
