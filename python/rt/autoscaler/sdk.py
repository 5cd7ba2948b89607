"""request_resources: what the cluster is to be able to hold, whatever waits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Optional

from rt import _driver
from rt._json import shown
from rt._resources import as_request, resources_spec

__all__ = ["request_resources"]


def request_resources(
    num_cpus: Optional[int] = None,
    bundles: Optional[list[dict[str, float]]] = None,
    bundle_label_selectors: Optional[list[dict[str, str]]] = None,
) -> None:
    """Asks the cluster to have nodes for all of these bundles at once, and to keep them.

    num_cpus: so many bundles {"CPU": 1}, beside `bundles`, such as [{"GPU": 1, "CPU": 4}] * 2. What
    runs counts as if it did not: a request for 8 cpus on a cluster of 8 that is busy adds nothing.
    Machines are made at once, within max_workers, and idle ones that are needed for the request
    stay. The request replaces the one before; request_resources(bundles=[]) ends it, and so does
    num_cpus=0. It outlives the script. `rt status` shows it.

    Raises TypeError for arguments of other types, and ValueError for a negative number, for
    bundle_label_selectors, and for a bundle that no node could hold.
    """
    if num_cpus is not None and (isinstance(num_cpus, bool) or not isinstance(num_cpus, int)):
        raise TypeError(f"num_cpus should be of type int, not {shown(num_cpus)}")
    if num_cpus is not None and num_cpus < 0:
        raise ValueError(f"num_cpus must be 0 or more, not {num_cpus}")
    if bundle_label_selectors:
        raise ValueError("bundle_label_selectors: nodes cannot be requested by their labels")
    counted = _counted(bundles or [])
    if num_cpus:
        counted.append({"resources": {"cpu": 1}, "count": num_cpus})
    _driver.get().call("resources_request", bundles=counted)


def _counted(bundles: Iterable[Any]) -> list[dict[str, Any]]:
    """Equal bundles as one entry with their number."""
    if not isinstance(bundles, (list, tuple)):
        raise TypeError(f"bundles should be a list of dicts, not {shown(bundles)}")
    counts: dict[str, int] = {}
    for bundle in bundles:
        if not isinstance(bundle, dict):
            raise TypeError(f"each bundle should be a dict like {{'CPU': 1}}, not {shown(bundle)}")
        if bundle:
            text = json.dumps(_amounts(bundle), sort_keys=True)
            counts[text] = counts.get(text, 0) + 1
    return [{"resources": json.loads(text), "count": count} for text, count in counts.items()]


def _amounts(bundle: dict[str, Any]) -> dict[str, Any]:
    # A search takes one cpu when it says nothing about cpus; a bundle is what it says.
    return resources_spec({"CPU": 0, **as_request(bundle)})
