"""The resource request of a trial: one dict, several bundles, or N ranks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Optional

from rt._json import clean, is_finite, is_number, shown, unboxed
from rt._slips import suggests_arguments, whole
from rt._space import Domain, SampleFrom

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class PlacementGroupFactory:
    """Bundles of resources that a trial reserves, all or nothing, on one or several nodes.

    By default the trainable runs in the first bundle, and the others are reserved for it. With
    `ranks`, N of the bundles run the trainable, each as a process with the variables of torchrun.
    Raises ValueError when there is no bundle, for an unknown strategy, and for more ranks than
    bundles.
    """

    def __init__(
        self, bundles: list[dict[str, float]], strategy: str = "PACK", *, ranks: int = 1, **_: Any
    ) -> None:
        if not bundles or not all(isinstance(bundle, dict) for bundle in bundles):
            raise ValueError("PlacementGroupFactory takes a list of dicts such as {'CPU': 1}")
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy {strategy!r}: must be one of {', '.join(_STRATEGIES)}")
        for bundle in bundles:
            _check_amounts(bundle)
        if not 1 <= whole("ranks", ranks) <= len(bundles):
            raise ValueError(f"ranks must be between 1 and {len(bundles)}, not {ranks}")
        self.bundles = bundles
        self.strategy = strategy
        self.ranks = ranks

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum of the bundles."""
        total: dict[str, float] = {}
        for bundle in self.bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0) + amount
        return total

    @property
    def head_cpus(self) -> float:
        """The cpus of the first bundle."""
        return self.bundles[0].get("CPU", self.bundles[0].get("cpu", 0))


@suggests_arguments
@dataclass
class ScalingConfig:
    """num_workers ranks that run the training function, each in a bundle of its own.

    resources_per_worker None: {"CPU": 1}, or {"GPU": 1} with use_gpu. placement_strategy as in
    PlacementGroupFactory. In the param_space of a Tuner any of them may be a domain or a grid, such
    as num_workers=tune.grid_search([1, 2]). num_workers=(1, 4): from 1 to 4 ranks, as the head
    decides while they run. accelerator_type: the type of the gpus, such as "H100". Raises
    ValueError for settings that contradict each other, and for values of the wrong kind.
    """

    num_workers: Any = 1
    use_gpu: Any = False
    resources_per_worker: Optional[dict[str, Any]] = None
    placement_strategy: Any = "PACK"
    trainer_resources: Optional[dict[str, Any]] = None
    accelerator_type: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.num_workers, (tuple, list)):
            self.num_workers = _bounds(self.num_workers)
            if self.trainer_resources:
                raise ValueError("trainer_resources need a fixed num_workers")
        elif not is_variable(self.num_workers):
            self.num_workers = whole("num_workers", self.num_workers, 1)
        for name in ("resources_per_worker", "trainer_resources"):
            amounts = getattr(self, name)
            if amounts is not None and not isinstance(amounts, dict):
                raise ValueError(f"{name} is a dict such as {{'CPU': 1}}, not {shown(amounts)}")
            if amounts is not None and not is_variable(amounts):
                _check_amounts(amounts, name)
        gpus = (self.resources_per_worker or {}).get("GPU")
        if is_variable(gpus) or is_variable(self.use_gpu):
            return
        if gpus and not self.use_gpu:
            raise ValueError("resources_per_worker asks for a GPU, and use_gpu is False")
        if self.use_gpu and gpus == 0:
            raise ValueError("use_gpu is True, and resources_per_worker says 0 GPU")

    def settings(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        own = {each.name: each.default for each in fields(self)}
        return {name: value for name, value in values.items() if value != own[name]}

    @property
    def total_resources(self) -> dict[str, float]:
        """The sum over all ranks; with bounds, over the fewest."""
        return self.as_placement_group_factory().required_resources

    @property
    def num_cpus_per_worker(self) -> float:
        """The cpus of each rank."""
        return float(self._each().get("CPU", 0))

    @property
    def num_gpus_per_worker(self) -> float:
        """The gpus of each rank."""
        return float(self._each().get("GPU", 0))

    def _each(self) -> dict[str, Any]:
        each = dict(self.resources_per_worker or ({} if self.use_gpu else {"CPU": 1}))
        if self.use_gpu:
            each.setdefault("GPU", 1)
        if self.accelerator_type is not None:
            each.setdefault(f"accelerator_type:{self.accelerator_type}", 0.0001)
        return each

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """A bundle and a rank per worker; the trainer's own resources go to the first bundle."""
        for name, value in self.settings().items():
            if is_variable(value):
                raise ValueError(
                    f"{name} of ScalingConfig is {shown(value)}; only the scaling_config in the "
                    "param_space of a Tuner may have values that are drawn"
                )
        fewest = self.num_workers[0] if self.is_elastic else self.num_workers
        bundles = [self._each() for _ in range(fewest)]
        for name, amount in (self.trainer_resources or {}).items():
            bundles[0][name] = bundles[0].get(name, 0) + amount
        return PlacementGroupFactory(bundles, strategy=self.placement_strategy, ranks=fewest)

    @property
    def is_elastic(self) -> bool:
        """Whether the head decides how many ranks there are."""
        return isinstance(self.num_workers, tuple)

    def as_elastic_request(self) -> dict[str, Any]:
        """What each rank gets, with the bounds of their number as `ranks`."""
        self.as_placement_group_factory()  # Checks the other settings.
        return {
            **self._each(),
            "ranks": list(self.num_workers),
            "strategy": self.placement_strategy,
        }

    to_placement_group_factory = as_placement_group_factory


def _bounds(workers: Any) -> Any:
    """The fewest and the most ranks; one number where these are equal."""
    if len(workers) != 2:
        raise ValueError(
            f"num_workers is a whole number, or two: the fewest and the most, not {shown(workers)}"
        )
    fewest, most = (whole("num_workers", number, 1) for number in workers)
    if fewest > most:
        raise ValueError(f"num_workers begins with the fewest ranks: ({most}, {fewest})")
    return fewest if fewest == most else (fewest, most)


def as_request(resources: Any) -> dict[str, Any]:
    """The argument of with_resources as a dict: `bundles`, `strategy`, `ranks`, or plain amounts.

    Raises ValueError for anything else.
    """
    if isinstance(resources, ScalingConfig) and resources.is_elastic:
        return resources.as_elastic_request()
    if isinstance(resources, ScalingConfig):
        resources = resources.as_placement_group_factory()
    if isinstance(resources, PlacementGroupFactory):
        return {
            "bundles": [dict(bundle) for bundle in resources.bundles],
            "strategy": resources.strategy,
            "ranks": resources.ranks,
        }
    if not isinstance(resources, dict):
        kind = type(resources).__name__
        raise ValueError(f"resources are a dict or a PlacementGroupFactory, not {kind}")
    _check_amounts(resources)
    return dict(resources)


def as_factory(spec: dict[str, Any]) -> PlacementGroupFactory:
    """`resources` of a specification with Ray's names: [{"CPU": 1}, …]."""
    bundles = spec.get("bundles") or [spec] * int(spec.get("ranks") or 1)
    return PlacementGroupFactory(
        [_with_ray_names(bundle) for bundle in bundles],
        strategy=spec.get("strategy") or "PACK",
        ranks=int(spec.get("ranks") or 1),
    )


def _with_ray_names(bundle: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, amount in {**bundle, **(bundle.get("custom") or {})}.items():
        if name in ("cpu", "gpu"):
            found[name.upper()] = amount
        elif name not in ("custom", "ranks", "strategy", "gpu_sharing", "gpu_type"):
            found[name] = amount
    return found


class TrialResources(dict[str, Any]):
    """What a trial asked for, such as {"cpu": 1}; of several bundles {"bundles": [{"cpu": 1}, …]}.

    It has the properties of a PlacementGroupFactory as well, whose amounts have Ray's names.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        bundles = spec.get("bundles") or []
        super().__init__({**(bundles[0] if len(bundles) == 1 else {}), **spec})
        self._factory = as_factory(spec)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The bundles, such as [{"CPU": 1}]."""
        return self._factory.bundles

    @property
    def strategy(self) -> str:
        """How the bundles are placed, such as "PACK"."""
        return self._factory.strategy

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum of the bundles."""
        return self._factory.required_resources

    @property
    def head_cpus(self) -> float:
        """The cpus of the first bundle."""
        return self._factory.head_cpus


def is_variable(value: Any) -> bool:
    """Whether the value, or one in a dict, will be drawn or tried in turn."""
    if isinstance(value, dict):
        return list(value) == ["grid_search"] or any(map(is_variable, value.values()))
    return isinstance(value, (Domain, SampleFrom))


# The head checks them.
_NO_AMOUNTS = {"strategy", "gpu_sharing", "gpu_type", "ranks", "bundles", "memory"}


def _check_amounts(amounts: dict[str, Any], what: str = "resources") -> None:
    """Raises ValueError for an amount that is not a number of 0 or more."""
    for name, amount in amounts.items():
        if not isinstance(name, str):
            raise ValueError(f"{what}: the name of a resource is a text, not {shown(name)}")
        if name == "custom_resources" and isinstance(amount, dict):
            _check_amounts(amount, "custom_resources")
        elif amount is not None and name not in _NO_AMOUNTS:
            found = unboxed(amount)
            if not is_number(found) or not is_finite(found) or found < 0:
                raise ValueError(f"{what}: {name!r} must be a number from 0, not {shown(amount)}")


def resources_spec(chosen: dict[str, Any]) -> dict[str, Any]:
    """The `resources` of an experiment's specification."""
    bundles = chosen.get("bundles")
    if bundles is not None:
        kept = {key: value for key, value in chosen.items() if key != "bundles"}
        return {**kept, "bundles": [_amounts(bundle) for bundle in bundles]}
    spec = _amounts(chosen)
    spec.setdefault("cpu", 0 if "CPU" in chosen or "cpu" in chosen else 1)
    return spec


def threads_of(spec: dict[str, Any]) -> int:
    """The number of threads that suits a process of the trial: its cpus, at least 1."""
    first = (spec.get("bundles") or [spec])[0]
    return max(1, int(first.get("cpu") or 0))


def _amounts(amounts: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for name, amount in amounts.items():
        key = name.lower() if name.lower() in ("cpu", "gpu", "memory") else name
        if amount is not None:
            spec[key] = clean(amount)
    return spec
