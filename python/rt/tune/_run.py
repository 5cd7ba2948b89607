"""Starts or resumes a search, and follows it to its end."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

from rt import _driver, _identity, _runtime
from rt._barrier import BARRIER_VARIABLES
from rt._driver import Driver
from rt._encode import encode_space
from rt._errors import RtError, hide_own_frames
from rt._pack import import_path
from rt._resources import threads_of
from rt._seeds import draw_seed
from rt._slips import (
    Place,
    check_size,
    check_space,
    errors_at,
    notes_of,
    notes_of_points,
    refusal,
)
from rt._values import ValueTable
from rt.tune._advice import ENTRIES, Advice, Advisors
from rt.tune._corrected import check_asked
from rt.tune._experiment import (
    Request,
    advice_of,
    build_spec,
    check_mode,
    is_strict,
    metric_and_mode,
    pack,
    tell_properties,
)
from rt.tune._files import remove_running, write_running, write_search
from rt.tune._hangs import advise, failed_call
from rt.tune._native import notes_of_search
from rt.tune._progress import HOLD_MS, TERMINAL, Progress, wait_for_end
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet
from rt.tune._wrap import check_arguments, lookup
from rt.tune.search import BasicVariantGenerator, HeadSearch, as_search

KEPT_STATE = ".rt-state"  # The state that an embedded cluster saves for an unfinished search.


def request_key(driver_id: str, ordinal: int, spec: dict[str, Any], dated: bool) -> str:
    """The request key, which is the same when the driver is run again: it then re-attaches."""
    left_out = {"inputs", "env", "cwd", "strict_metric"} | ({"experiment"} if dated else set())
    kept = {key: value for key, value in spec.items() if key not in left_out}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]
    return f"{driver_id}:{ordinal}:{digest}"


def _create(
    driver: Driver, ready: _Prepared, refused: Optional[ValueError] = None
) -> dict[str, Any]:
    """Creates the experiment, or re-attaches if an earlier run of this driver created it.

    `refused`: why this release refuses the search; raised unless the experiment exists already.
    """
    ordinal = _driver.next_ordinal()
    # Not in the key: a driver that is run again draws another seed.
    drawn = {} if ready.seed is None else {"seed": ready.seed}

    def create(name: str) -> dict[str, Any]:
        key = request_key(name, ordinal, ready.spec, ready.dated)
        if refused is not None:
            return _find(driver, ready.spec, key, refused)
        with errors_at(ready.request.place):
            try:
                spec = {**ready.spec, **drawn}
                return dict(driver.call("experiment_create", spec=spec, key=key))
            except ValueError as error:
                raise refusal(error, ready.spec) from None

    if driver.inside_job or driver.embedded:
        return create(driver.id)
    name = _identity.mine().of(ordinal)
    while True:
        created = create(name)
        if not created.get("attached"):
            return created
        known = driver.call("experiment_get", experiment_id=int(created["experiment_id"]))
        if known.get("state") not in TERMINAL:
            return created
        name = _identity.mine().renew(ordinal)


def _find(driver: Driver, spec: dict[str, Any], key: str, refused: ValueError) -> dict[str, Any]:
    try:
        found = driver.call("experiment_find", spec=spec, key=key)
    except ValueError:  # A head of an earlier release does not know how.
        raise refused from None
    if found.get("experiment_id") is None:
        raise refused
    return dict(found)


def _refusal_of(
    place: Optional[Place], check: Callable[..., None], *args: Any
) -> Optional[ValueError]:
    """What the check raises, with its place, for later: it is about new searches only."""
    try:
        with errors_at(place):
            check(*args)
    except ValueError as error:
        return error
    return None


@dataclass
class _Prepared:
    """A search that is ready to be started or resumed."""

    request: Request
    spec: dict[str, Any]
    table: ValueTable
    advice: Advice
    dated: bool
    manifest: str  # The manifest that its trials unpickle.
    seed: Optional[int] = None  # Drawn if the specification has none.


def _prepare(request: Request, resumed: bool = False) -> _Prepared:
    hide_own_frames()
    request.trainable = lookup(request.trainable)
    with errors_at(request.place):
        check_arguments(request.trainable)
        spec, table, dated = build_spec(request)
    advice = advice_of(request, spec)
    tell_properties(request, advice, spec, resumed)
    asked = advice.to_spec()
    if asked:
        spec["driver"] = asked
    payload = pack(request, spec, table)
    try:
        manifest = _driver.get().push_dir(payload)
    finally:
        shutil.rmtree(payload, ignore_errors=True)
    return _Prepared(request, spec, table, advice, dated, manifest)


def run_search(request: Request) -> TrialSet:
    """Runs the search to its end. Raises ValueError for bad input and impossible requests."""
    hide_own_frames()
    refused = _refusal_of(None, check_space, request.space, request.place)
    refused = refused or _refusal_of(request.place, check_mode, request.tune)
    if refused is not None and _driver.is_embedded():
        raise refused
    try:
        ready = _prepare(request)
    except ValueError:
        if refused is None:
            raise
        raise refused from None
    if request.is_search and request.run.verbose != 0 and refused is None:
        _say_notes([*notes_of(request.space), *notes_of_search(request.tune.search_alg)])
        search = as_search(request.tune.search_alg)
        if isinstance(search, (BasicVariantGenerator, HeadSearch)):
            _say_notes(notes_of_points(request.space, search.points))
    driver, spec, manifest = _driver.get(), ready.spec, ready.manifest
    spec["inputs"] = [{"manifest": manifest, "env": "RT_TRAINABLE"}]
    spec["env"] = dict(_runtime.env_vars)
    # As in Ray: otherwise each of several concurrent trials would start a thread per core.
    own = getattr(request.trainable, "omp_threads", None)
    threads = os.environ.get("OMP_NUM_THREADS", own and str(own))
    if threads is None and ready.advice.resources_of is None:  # Else the head knows.
        threads = str(threads_of(spec["resources"]))
    if threads:
        spec["env"].setdefault("OMP_NUM_THREADS", threads)
    for name in ("RT_WARM_START", *BARRIER_VARIABLES):
        if name in os.environ:
            spec["env"].setdefault(name, os.environ[name])
    path = import_path(outside_job=not driver.inside_job)
    if path:
        spec["env"].setdefault("PYTHONPATH", path)
    if driver.embedded:
        spec["cwd"] = os.getcwd()
    elif os.environ.get("RT_BUNDLE"):
        spec["bundle"] = os.environ["RT_BUNDLE"]
    if "seed" not in spec and ready.advice.searcher is None:
        ready.seed = ready.advice.seed = draw_seed()
    refused = refused or _refusal_of(request.place, check_size, spec)
    created = _create(driver, ready, refused)
    if created.get("attached"):
        known = driver.call("experiment_get", experiment_id=int(created["experiment_id"]))
        ready.advice.seed = known.get("seed")
    return _follow(driver, ready, created)


_said: set[str] = set()


def _say_notes(notes: list[str]) -> None:
    """Prints each warning once, even if several searches have the same space."""
    for note in notes:
        if note not in _said:
            _said.add(note)
            print(f"rt: {note}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Fates:
    """The treatment of trials when a search is resumed: "keep" them unchanged, "retry" them from
    their newest checkpoints, or "restart" them without a checkpoint."""

    failed: str = "keep"
    unfinished: str = "retry"  # Running, or interrupted when the search ended.
    finished: str = "keep"

    @property
    def wants_end(self) -> bool:
        """Whether unfinished trials must not simply continue."""
        return (self.unfinished, self.finished) != ("retry", "keep")


def _reopen(driver: Driver, known: dict[str, Any], fates: Fates, trainable: str) -> bool:
    """Runs the selected trials of a search again. Returns whether anything is left to run."""
    number = int(known["id"])
    state = driver.call("experiment_get", experiment_id=number).get("state")
    if state not in TERMINAL and fates.wants_end:
        driver.call("experiment_stop", experiment_id=number, reason="its trials do not go on")
    is_ending = fates.wants_end or state == "STOPPING"
    while is_ending and state not in TERMINAL:  # Only what has ended is resumed.
        held = driver.call("experiment_wait", experiment_id=number, until_end=True, hold_ms=HOLD_MS)
        state = held.get("state")
    if state in (*TERMINAL, "PAUSED"):
        asked = {"failed": fates.failed, "unfinished": fates.unfinished}
        asked["finished"] = fates.finished
        try:
            driver.call("experiment_resume", experiment_id=number, trainable=trainable, **asked)
        except RtError as error:
            if error.code == "FAILED_PRECONDITION" and "nothing left" in str(error):
                return False
            raise
    if state not in TERMINAL and fates.failed != "keep":
        for trial in _all_trials(driver, number):
            if trial.get("state") == "FAILED":
                anew = fates.failed == "restart"
                driver.call("trial_retry", trial_id=trial["id"], from_scratch=anew)
    return True


def resume_search(request: Request, known: dict[str, Any], fates: Fates) -> TrialSet:
    """Resumes an experiment, as experiment_get returns it, and runs it to its end.

    The trainable of `request` replaces the old one unless the experiment still runs.
    """
    ready = _prepare(request, resumed=True)
    asked = (known.get("spec") or {}).get("driver") or {}
    check_asked(ready.spec.get("driver") or {}, asked)
    if asked:  # Also where the script has nothing to say any more: the head waits for answers.
        ready.spec["driver"] = asked
    driver, experiment_id = _driver.get(), int(known["id"])
    created = {
        "experiment_id": experiment_id,
        "results_dir": known.get("results_dir"),
        "attached": True,
    }
    created["ended"] = not _reopen(driver, known, fates, ready.manifest)
    if created["ended"]:  # No answer is needed. Callbacks hear of what they missed.
        none: dict[str, Any] = dict.fromkeys(("searcher", "scheduler", "explore", "allocator"))
        ready.advice = replace(ready.advice, **none, stoppers=[])
    ready.dated = False
    ready.advice.seed = known.get("seed")
    return _follow(driver, ready, created)


def _follow(driver: Driver, ready: _Prepared, created: dict[str, Any]) -> TrialSet:
    """Answers the experiment's questions and shows its progress to its end."""
    request, experiment_id = ready.request, int(created["experiment_id"])
    kept = os.path.join(str(created.get("results_dir") or ""), KEPT_STATE)
    if driver.embedded:
        driver.call("local_keep", path=kept)
        write_running(os.path.dirname(kept), driver.embedded_dir)
    progress = Progress(request.run.verbose, created, driver.embedded)
    advisors = Advisors(ready.advice, ready.table) if "driver" in ready.spec else None
    try:
        if advisors is not None:
            advisors.attach(driver, experiment_id, progress.say_above)  # Calls Callback.setup.
        experiment = wait_for_end(driver, experiment_id, progress, advisors)
    except RtError:  # An error of the cluster: a search continues without its driver.
        raise
    except BaseException as error:  # The user's code, or a second Ctrl-C.
        failed = failed_call(error, ENTRIES)
        _stop(driver, experiment_id, f"{type(error).__name__} in {failed or 'its driver'}")
        if failed is not None:
            advise(error, failed.advice(str(created.get("results_dir") or "")))
        raise
    finally:
        if advisors is not None:
            advisors.close()
    items = _all_trials(driver, experiment_id)
    experiment.setdefault("results_dir", created.get("results_dir"))
    metric, mode = metric_and_mode(request.tune)
    trials = TrialSet.of_items(experiment, items, ready.table, metric, mode)
    progress.failures(trials)
    if request.run.verbose != 0:
        known = driver.call("experiment_get", experiment_id=experiment_id)
        for warning in known.get("warnings") or []:
            progress.say(f"warning: {warning}")
    if driver.embedded:
        trials.save_files(driver.embedded_dir, request.run.log_to_file)
        _leave_search(trials)
        if trials.all_done():
            driver.call("local_keep", path="")
            shutil.rmtree(kept, ignore_errors=True)
            remove_running(os.path.dirname(kept))
    _check_outcome(trials, any(item.get("started_at") for item in items))
    return trials


def _stop(driver: Driver, experiment_id: int, reason: str) -> None:
    """Stops the search, which would otherwise use capacity for a driver that has left."""
    with contextlib.suppress(RtError, ValueError):  # The driver's own error is reported.
        driver.call("experiment_stop", experiment_id=experiment_id, reason=reason)


def _leave_search(trials: TrialSet) -> None:
    """Saves the state, so that the search is found when its cluster is gone."""
    if not os.path.isdir(trials.path):
        return
    try:
        write_search(trials)
    except OSError as error:
        print(f"rt: {trials.path}: {error}", file=sys.stderr, flush=True)


def known_trials(
    known: dict[str, Any], space: Optional[dict[str, Any]], unpickle: bool = True
) -> TrialSet:
    """The current trials of an experiment that experiment_get returned.

    `space`: the space with which it was started, for values that JSON could not hold. `unpickle`:
    also values that were computed for a trial, which runs code of whoever started the experiment.
    """
    items = _all_trials(_driver.get(), int(known["id"]))
    table = encode_space(space)[1]
    return TrialSet.of_items(known, items, table, known.get("metric"), known.get("mode"), unpickle)


def _all_trials(driver: _driver.Driver, experiment_id: int) -> list[dict[str, Any]]:
    """The trials of an experiment, from all pages of the list."""
    items: list[dict[str, Any]] = []
    reply = driver.call("trial_list", experiment_id=experiment_id)
    items += reply["items"]
    while reply.get("next"):
        reply = driver.call("trial_list", experiment_id=experiment_id, **{"from": reply["next"]})
        items += reply["items"]
    return items


def _check_outcome(trials: TrialSet, any_ran: bool) -> None:
    experiment = trials.experiment
    if experiment.get("state") == "FAILED" and not any_ran:
        raise ValueError(str(experiment.get("reason") or "the search could not run"))
    metric = trials.metric
    if not metric or not is_strict():
        return
    for trial in trials:
        if trial.state == "COMPLETED" and not _has_value(trial, metric):
            raise ValueError(f"trial {trial.trial_id} ended without {trials.lacking(metric)}")


def _has_value(trial: AnyTrial, metric: str) -> bool:
    """Whether a row has the metric. The last row may have only a checkpoint."""
    if trial.value(metric, "max", "last", False) is not None:
        return True
    return trial.value(metric, "max", "all", False) is not None
