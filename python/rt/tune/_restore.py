"""Finds an earlier search: Tuner.restore, Tuner.can_restore and tune.run(resume=...)."""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import dataclass, replace
from typing import Any, Optional

from rt import _driver
from rt._checkpoint import scratch_dir
from rt._errors import RtError
from rt._pack import TUNER_FILE
from rt.tune._files import holds_search, read_search, wait_left
from rt.tune._run import KEPT_STATE, Fates, known_trials
from rt.tune._trials import TrialSet


class ResumeConfig:
    """The treatment of trials that had ended, were unfinished, or had failed."""

    class ResumeType:
        """Resume, restart, or leave unchanged."""

        RESUME = "RESUME"
        RESTART = "RESTART"
        SKIP = "SKIP"

    def __init__(
        self, finished: str = "SKIP", unfinished: str = "RESUME", errored: str = "SKIP"
    ) -> None:
        self.finished, self.unfinished, self.errored = finished, unfinished, errored
        self.fates()

    def fates(self) -> Fates:
        """The name that a search uses. Raises ValueError for a value that is not a ResumeType."""
        return Fates(_fate(self.errored), _fate(self.unfinished), _fate(self.finished))


def _fate(kind: str) -> str:
    known = {"SKIP": "keep", "RESUME": "retry", "RESTART": "restart"}
    if kind not in known:
        raise ValueError(f"ResumeConfig takes {', '.join(known)}, not {kind!r}")
    return known[kind]


@dataclass
class Resume:
    """The parsed `resume` of tune.run."""

    required: bool  # An error when there is no search to resume.
    fates: Fates


def parse_resume(resume: Any, config: Optional[ResumeConfig]) -> Optional[Resume]:
    """None when nothing is resumed. Raises ValueError for a value that Ray does not know."""
    if not resume:
        return Resume(True, config.fates()) if config is not None else None
    if resume is True:
        resume = "LOCAL"
    base, *extras = str(resume).upper().split("+")
    kinds = {"ERRORED": "retry", "ERRORED_ONLY": "retry", "RESTART_ERRORED": "restart",
             "RESTART_ERRORED_ONLY": "restart"}  # fmt: skip
    if base in kinds:
        base, extras = "LOCAL", [base]
    if base not in ("AUTO", "LOCAL", "REMOTE", "PROMPT") or any(e not in kinds for e in extras):
        raise ValueError(f"resume must be True, 'AUTO' or 'AUTO+ERRORED', not {resume!r}")
    fates = config.fates() if config is not None else Fates()
    if extras:
        fates = replace(fates, failed=kinds[extras[-1]])
    return Resume(base != "AUTO", fates)


def results_root(storage_path: Optional[str]) -> str:
    """The directory for results of searches without a storage_path on this machine."""
    root = storage_path or os.environ.get("RT_RESULTS") or "~/rt_results"
    return os.path.abspath(os.path.expanduser(os.fspath(root)))


def _on_a_cluster() -> bool:
    named = _driver.settings.cluster or os.environ.get("RT_CLUSTER")
    return bool(named or os.environ.get("RT_SOCKET"))


def _experiments() -> list[dict[str, Any]]:
    """All experiments of the connected cluster, from all pages of the list."""
    driver = _driver.get()
    items: list[dict[str, Any]] = []
    start: Optional[int] = 0
    while start is not None:
        try:
            reply = driver.call("experiment_list", **{"from": start})
        except RtError as error:
            if error.code != "INVALID_ARGUMENT":
                raise
            # A head of release 0.1 does not know this operation.
            return list(driver.call("cluster_status").get("experiments") or [])
        items += reply["items"]
        start = reply["next"]
    return items


def _search(path: str) -> Optional[dict[str, Any]]:
    """The newest experiment of the connected cluster with that name or results directory."""
    driver = _driver.get()
    name = os.path.basename(path.rstrip("/"))
    for item in sorted(_experiments(), key=lambda each: -int(each["id"])):
        if not name.startswith(str(item["name"])):
            continue
        found = dict(driver.call("experiment_get", experiment_id=int(item["id"])))
        where = str(found.get("results_dir") or "")
        if where in (path, os.path.realpath(path)) or (
            os.sep not in path and name in (item["name"], os.path.basename(where))
        ):
            return found
    return None


def find(path: str, storage_path: Optional[str] = None) -> Optional[dict[str, Any]]:
    """The experiment of that name or results directory, as experiment_get shows it, or None.

    On a cluster the head knows it. An embedded cluster is started from the saved state.
    """
    given = os.path.expanduser(os.fspath(path))
    if os.sep in given:
        given = os.path.abspath(given)
    if _on_a_cluster() or _driver.is_open():
        found = _search(given)
        if found is not None or _on_a_cluster():
            return found
    root = _directory(given, storage_path)
    wait_left(root)
    if not os.path.isdir(os.path.join(root, KEPT_STATE)):
        return None
    _driver.close()
    _driver.settings.state = os.path.join(root, KEPT_STATE)
    return _search(root) or _moved()


def _moved() -> Optional[dict[str, Any]]:
    """The search whose state was saved, if its directory has been renamed."""
    driver = _driver.get()
    ids = sorted((int(each["id"]) for each in _experiments()), reverse=True)
    shown = [dict(driver.call("experiment_get", experiment_id=each)) for each in ids]
    unfinished = [each for each in shown if each.get("state") != "COMPLETED"]
    return next(iter(unfinished + shown), None)


def _directory(given: str, storage_path: Optional[str] = None) -> str:
    return given if os.sep in given else os.path.join(results_root(storage_path), given)


def find_ended(
    path: str, storage_path: Optional[str] = None, unpickle: bool = True
) -> Optional[TrialSet]:
    """A finished search on this machine, of which nothing is left to resume.

    `unpickle`: also the values that JSON cannot hold, which runs code of whoever wrote them.
    """
    given = os.path.expanduser(os.fspath(path))
    root = os.path.abspath(_directory(given, storage_path))
    if _on_a_cluster() or not holds_search(root):
        return None
    return read_search(root, unpickle)


def find_trials(path: str, unpickle: bool) -> TrialSet:
    """The trials of the search of that name or results directory, as they are now.

    `unpickle`: also the values that JSON cannot hold, which runs code of whoever started the
    search. Raises ValueError when there is no such search.
    """
    known = find(path)
    if known is None:
        ended = find_ended(path, unpickle=unpickle)
        if ended is None:
            raise ValueError(f"there is no search in {path!r}")
        return ended
    space = None
    if unpickle:
        try:
            space = load_tuner(known)["space"]
        except (RtError, ValueError):
            pass  # Not started by a Tuner: all of its values are JSON.
    return known_trials(known, space, unpickle)


def can_find(path: str) -> bool:
    """Whether find() or find_ended() would find the search."""
    given = os.path.expanduser(os.fspath(path))
    if _on_a_cluster() or _driver.is_open():
        wanted = os.path.abspath(given) if os.sep in given else given
        if _search(wanted) is not None:
            return True
    root = _directory(given)
    wait_left(root)
    kept = os.path.isdir(os.path.join(root, KEPT_STATE))
    return kept or (not _on_a_cluster() and holds_search(root))


def load_tuner(known: dict[str, Any]) -> dict[str, Any]:
    """The {"space", "tune", "run"} that an experiment was started with."""
    inputs = (known.get("spec") or {}).get("inputs") or []
    name = f"experiment {known.get('id')}"
    if not inputs:
        raise ValueError(f"{name} was not started by a Tuner: rt exp resume {known.get('id')}")
    target = scratch_dir("rt-tuner-")
    try:
        _driver.get().call("blob_pull_dir", manifest=inputs[0]["manifest"], target=target)
        with open(os.path.join(target, TUNER_FILE), "rb") as file:
            return dict(pickle.load(file))
    except FileNotFoundError:
        raise RtError(
            f"the configuration of {name} could not be stored (it holds what cannot be pickled)",
            "FAILED_PRECONDITION",
            "call tune.run(..., resume=True) with all arguments again",
        ) from None
    finally:
        shutil.rmtree(target, ignore_errors=True)
