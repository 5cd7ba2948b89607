"""The resource request of a trial: one dict, several bundles, or N ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from rt._json import clean

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
        if not 1 <= ranks <= len(bundles):
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


@dataclass
class ScalingConfig:
    """num_workers ranks that run the training function, each in a bundle of its own.

    resources_per_worker None: {"CPU": 1}, or {"GPU": 1} with use_gpu. placement_strategy as in
    PlacementGroupFactory. Raises ValueError for settings that contradict each other.
    """

    num_workers: int = 1
    use_gpu: bool = False
    resources_per_worker: Optional[dict[str, float]] = None
    placement_strategy: str = "PACK"
    trainer_resources: Optional[dict[str, float]] = None

    def __post_init__(self) -> None:
        if not isinstance(self.num_workers, int) or self.num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, not {self.num_workers!r}")
        gpus = (self.resources_per_worker or {}).get("GPU")
        if gpus and not self.use_gpu:
            raise ValueError("resources_per_worker asks for a GPU, and use_gpu is False")
        if self.use_gpu and gpus == 0:
            raise ValueError("use_gpu is True, and resources_per_worker says 0 GPU")

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """A bundle and a rank per worker; the trainer's own resources go to the first bundle."""
        each = dict(self.resources_per_worker or ({} if self.use_gpu else {"CPU": 1}))
        if self.use_gpu:
            each.setdefault("GPU", 1)
        bundles = [dict(each) for _ in range(self.num_workers)]
        for name, amount in (self.trainer_resources or {}).items():
            bundles[0][name] = bundles[0].get(name, 0) + amount
        return PlacementGroupFactory(
            bundles, strategy=self.placement_strategy, ranks=self.num_workers
        )

    to_placement_group_factory = as_placement_group_factory


def as_request(resources: Any) -> dict[str, Any]:
    """The argument of with_resources as a dict: `bundles`, `strategy`, `ranks`, or plain amounts.

    Raises ValueError for anything else.
    """
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
    return dict(resources)


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
