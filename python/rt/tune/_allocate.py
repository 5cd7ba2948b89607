"""resources_allocation_function: the user's function that gives running trials other resources."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Optional

from rt._driver import Driver
from rt._resources import as_request, resources_spec
from rt.tune._explore import name_of

Amounts = dict[str, float]  # Such as {"CPU": 4.0, "GPU": 1.0}.
_FRESH_S = 1.0  # How long the cluster's resources are taken for known.


class ClusterResources:
    """What a function asks `tune_controller._resource_updater`, with Ray's names."""

    def __init__(self, read: Callable[[], Amounts]) -> None:
        self._read = read
        self._known: Amounts = {}
        self._read_at: Optional[float] = None

    def update_avail_resources(self, *_: Any, **__: Any) -> None:
        """Asks the head for the cluster's resources."""
        self._known, self._read_at = self._read(), time.monotonic()

    def get_num_cpus(self) -> int:
        """The cpus of the cluster, those in use included."""
        return int(self._amount("CPU"))

    def get_num_gpus(self) -> int:
        """The gpus of the cluster, those in use included."""
        return int(self._amount("GPU"))

    def _amount(self, name: str) -> float:
        if self._read_at is None or time.monotonic() - self._read_at > _FRESH_S:
            self.update_avail_resources()
        return self._known.get(name, 0.0)


def allocated(
    function: Callable[..., Any], controller: Any, trial: Any, result: dict[str, Any], owner: Any
) -> Optional[dict[str, Any]]:
    """`resources` of a specification; None: the trial keeps what it has.

    Raises ValueError where the function returns neither resources nor None, and what it raises.
    """
    made = function(controller, trial, result, owner)
    if made is None:
        return None
    try:
        return resources_spec(as_request(made))
    except ValueError as error:
        raise not_resources(function, error) from None


def not_resources(function: Callable[..., Any], error: ValueError) -> ValueError:
    """The error of the script whose function returned something else than resources."""
    return ValueError(
        f"resources_allocation_function {name_of(function)}: {error}; it returns a dict "
        "such as {'CPU': 2}, a PlacementGroupFactory, or None: the trial keeps what it has"
    )


def send_answer(driver: Driver, **answer: Any) -> Optional[ValueError]:
    """Sends the driver's decisions. Returns why the head refused the resources among them, if so.

    The head takes an answer as a whole. Where it refuses the resources, the other decisions are
    sent without them, and are kept. Raises ValueError if it refuses something else.
    """
    try:
        driver.call("driver_answer", **answer)
    except ValueError as error:
        if not answer["allocated"]:
            raise
        driver.call("driver_answer", **{**answer, "allocated": []})
        return error
    return None
