"""The driver hooks (rule 8): user code runs in the driver, and answers the head record by record.

The head's journal says what happened. Advisors reads the records of its experiment in order, and
passes each record to the stoppers, the scheduler, the searcher and the callbacks. It answers with
configurations and with trials to stop. An answer names the last record that it covers. A driver
that is run again reads the journal from the beginning: the searcher, the scheduler and the stoppers
see the answered records once more, in the same order, so that they regain their state. Callbacks
are called only for the records that were not answered.
"""

from __future__ import annotations

import copy
import os
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from rt._computed import place, resolve, value_at
from rt._driver import Driver
from rt._encode import json_config, json_value
from rt._json import numbers
from rt._resources import as_factory, as_request, resources_spec
from rt._runtime import read_resources
from rt._values import Path, ValueTable, restore_values
from rt.tune._allocate import ClusterResources, allocated, not_resources, send_answer
from rt.tune._explore import Explore, explored
from rt.tune._hangs import HangWatch, until_abandoned
from rt.tune._live import ERROR, PAUSED, PENDING, TERMINATED, Controller, LiveTrial
from rt.tune._reallocation import ResourceChangingScheduler
from rt.tune._suggest import merged, suggested
from rt.tune._trials import remote_checkpoint
from rt.tune.callback import Callback
from rt.tune.schedulers import TrialScheduler
from rt.tune.search import FINISHED, Searcher
from rt.tune.stopper import Stopper

Entry = dict[str, Any]


@dataclass
class Advice:
    """The questions that a driver answers; the head itself decides about empty parts."""

    searcher: Optional[Searcher] = None
    scheduler: Optional[TrialScheduler] = None
    explore: Optional[Explore] = None  # Changes the configurations of clones.
    # Its function gives running trials other resources.
    allocator: Optional[ResourceChangingScheduler] = None
    resources: dict[str, Any] = field(default_factory=dict)  # Each trial's, in the head's form.
    stoppers: list[Stopper] = field(default_factory=list)
    callbacks: list[Callback] = field(default_factory=list)
    computed: list[tuple[Path, Any]] = field(default_factory=list)  # See rt._computed.computed.
    seed: Any = None  # The seed for values drawn here.
    name_of: Optional[Callable[[Any], str]] = None
    directory_of: Optional[Callable[[Any], str]] = None
    # From a trial's configuration to its resources; the result None means the experiment's.
    resources_of: Optional[Callable[[dict[str, Any]], Any]] = None
    info: dict[str, Any] = field(default_factory=dict)  # For Callback.setup.
    space: dict[str, Any] = field(default_factory=dict)  # In the form of the head.

    def to_spec(self) -> dict[str, Any]:
        """The `driver` of an experiment's specification; empty without questions."""
        told = (self.name_of, self.directory_of, self.resources_of)
        spec: dict[str, Any] = {
            "suggests": self.searcher is not None
            or bool(self.computed)
            or told != (None, None, None),
            "judges": self.scheduler is not None or bool(self.stoppers),
            "chooses": self.chooses(),
            "watches": bool(self.callbacks),
            "explores": self.explore is not None,
            "allocates": self.allocator is not None,
        }
        if self.searcher is not None:
            spec["search"] = type(self.searcher).__name__
        if self.scheduler is not None:
            spec["scheduler"] = type(self.scheduler).__name__
        return {key: value for key, value in spec.items() if value}

    def chooses(self) -> bool:
        """Whether the scheduler chooses the trial that runs next."""
        own = getattr(type(self.scheduler), "choose_trial_to_run", None)
        return self.scheduler is not None and own is not TrialScheduler.choose_trial_to_run


class Advisors:
    """Answers one experiment's questions. One thread, the one that called fit()."""

    def __init__(self, advice: Advice, table: ValueTable) -> None:
        self.advice = advice
        self._table = table
        self._controller = Controller(advice.searcher, advice.scheduler)
        self._controller.stop = self._stop_trial
        self._controller.pause = self._pause
        self._stops: dict[int, dict[str, Any]] = {}
        self._pauses: list[int] = []
        self._explored: dict[int, dict[str, Any]] = {}  # By trial.
        self._allocated: dict[int, dict[str, Any]] = {}  # By trial.
        self._stop_all = ""
        self._history: list[Entry] = []
        self._warned: set[str] = set()
        self._live = False
        self.ended = False
        self.watch: Optional[HangWatch] = None

    def attach(
        self, driver: Driver, experiment_id: int, say: Optional[Callable[[str], None]] = None
    ) -> None:
        """Becomes the experiment's driver. `say` is told about functions that do not return."""
        self._driver = driver
        self._id = experiment_id
        self._controller._resource_updater = ClusterResources(
            lambda: read_resources("total", driver)
        )
        if self.advice.allocator is not None:
            base = as_factory(self.advice.resources)
            self.advice.allocator._base_trial_resources = base
        name = os.urandom(8).hex()
        reply = driver.call("driver_attach", experiment_id=experiment_id, driver=name)
        self._session = reply["session"]
        self._answered = self._answered_before = int(reply["answered_seq"])
        self._replays = self._answered > 0  # Until the answered records have been replayed.
        self._read = int(reply["created_seq"])
        self._considered: list[int] = []
        if say is not None:
            self.watch = HangWatch(driver, experiment_id, self._session, ENTRIES, say)
            self.watch.start()
        for callback in self.advice.callbacks:
            callback.setup(**self.advice.info)

    def close(self) -> None:
        """Ends what attach began in this process."""
        if self.watch is not None:
            self.watch.close()

    def poll(self, hold_ms: int) -> None:
        """Reads new records, waiting for them up to `hold_ms`, and answers them."""
        reply = self._driver.call(
            "driver_questions",
            experiment_id=self._id,
            session=self._session,
            after=self._read,
            asked=self._considered,
            hold_ms=hold_ms,
        )
        entries = reply["entries"]
        self._read = int(reply["through"])
        if entries:
            self._take_all(entries)
        suggestions: list[dict[str, Any]] = []
        finished = False
        resumes: list[int] = []
        with until_abandoned(self):
            if not reply["more"] and not self._replays:
                suggestions, finished = self._suggest(reply["asked"])
            resumes = [] if self._replays else self._choose()
        decided = self._stops or self._pauses or self._stop_all
        if not self._replays and (entries or suggestions or finished or resumes or decided):
            self._answer(suggestions, finished, resumes)
        if reply["ended"] and not reply["more"] and not entries and not self.ended:
            self.ended = True
            with until_abandoned(self):
                for callback in self.advice.callbacks:
                    callback.on_experiment_end(trials=self._controller.get_trials())

    def _choose(self) -> list[int]:
        """The trial that the scheduler starts next; one at a time waits for nodes."""
        scheduler, trials = self.advice.scheduler, self._controller.get_trials()
        if scheduler is None or any(t.released and t.status == PENDING for t in trials):
            return []
        chooses = self.advice.chooses()
        if not chooses and not any(trial.status == PAUSED for trial in trials):
            return []  # The head starts pending trials in its own order.
        trial = scheduler.choose_trial_to_run(self._controller)
        if trial is None or trial.status not in ((PENDING, PAUSED) if chooses else (PAUSED,)):
            return []
        if trial.status == PAUSED and self.advice.searcher is not None:
            self.advice.searcher.on_unpause(trial.trial_id)
        trial.status, trial.released = PENDING, True
        return [trial.number]

    def _answer(
        self, suggestions: list[dict[str, Any]], finished: bool, resumes: list[int]
    ) -> None:
        through = max(self._read, self._answered)
        refused = send_answer(
            self._driver,
            experiment_id=self._id,
            session=self._session,
            **{"from": self._answered},
            through=through,
            suggestions=suggestions,
            search_finished=finished,
            stops=list(self._stops.values()),
            pauses=self._pauses,
            resumes=resumes,
            explored=list(self._explored.values()),
            allocated=list(self._allocated.values()),
            stop_all=self._stop_all,
        )
        self._answered = through
        self._stops, self._pauses, self._stop_all = {}, [], ""
        self._explored, self._allocated = {}, {}
        if refused is not None and self.advice.allocator is not None:
            raise not_resources(self.advice.allocator.allocate, refused)

    # --- the journal --------------------------------------------------------------------------

    def _take_all(self, entries: list[Entry]) -> None:
        for entry in entries:
            with until_abandoned(self):
                self._step(entry)

    def _step(self, entry: Entry) -> None:
        """One iteration, as callbacks count them. Hooks are called by keyword, as Ray does."""
        controller = self._controller
        controller.iteration += 1
        for callback in self.advice.callbacks:
            callback.on_step_begin(**self._now())
        if self._replays:
            self._take_history(entry)
        else:
            self._take(entry, live=True)
        for callback in self.advice.callbacks:
            callback.on_step_end(**self._now())

    def _now(self) -> dict[str, Any]:
        controller = self._controller
        return {"iteration": controller.iteration, "trials": controller.get_trials()}

    def _take_history(self, entry: Entry) -> None:
        """Replays answered records in their original order: results, then suggestions."""
        if entry["kind"] == "answered":
            for each in self._history:
                if each["seq"] <= entry["through"]:
                    self._take(each, live=False)
            self._history = [each for each in self._history if each["seq"] > entry["through"]]
            if entry["through"] >= self._answered_before:
                self._finish_history()
            return
        if entry["kind"] == "trial" and self.advice.searcher is not None:
            self._suggest_again(self.advice.searcher, entry)
        self._history.append(entry)

    def _finish_history(self) -> None:
        """Replays the records that earlier drivers read but did not answer."""
        self._replays = False
        left, self._history = self._history, []
        for entry in left:
            self._take(entry, live=True)

    def _take(self, entry: Entry, live: bool) -> None:
        kind = entry["kind"]
        self._live = live
        if kind in ("decided", "answered"):
            return
        if kind == "trial":
            return self._on_trial(entry)
        if kind == "explore":
            return self._on_explore(entry) if live else None
        trial = self._controller.trials[int(entry["number"])]
        callbacks = self.advice.callbacks if live else []
        if kind == "start":
            return self._on_start(trial, entry, callbacks) if entry["rank"] == 0 else None
        if kind == "rows":
            self._on_start(trial, entry, callbacks)  # Unless it was called before.
            for row in entry["rows"]:
                with until_abandoned(self):
                    self._on_row(trial, row["result"], callbacks)
            return None
        if kind == "checkpoint":
            return self._on_checkpoint(trial, entry, callbacks)
        if kind == "attempt_end":
            return self._on_attempt_end(trial, entry, callbacks)
        if kind == "end":
            return self._on_end(trial, entry, callbacks)
        if kind == "resume":
            trial.status = PENDING if trial.status == PAUSED else trial.status
            trial.released = trial.status == PENDING
        if kind == "retry":
            trial.status, trial.told, trial.released = PENDING, False, True
        return None

    def _on_trial(self, entry: Entry) -> None:
        number = int(entry["number"])
        config = restore_values(numbers(entry["params"] or {}), self._table)
        trial = self._live_trial(number, config, entry["name"])
        trial.local_path = entry.get("results_dir") or ""
        self._controller.trials[number] = trial
        if self.advice.scheduler is not None:
            self.advice.scheduler.on_trial_add(self._controller, trial)

    def _on_explore(self, entry: Entry) -> None:
        found = explored(self.advice.explore, entry, self._table)
        self._explored[found["number"]] = found
        if "failure" in found:
            self._warn(f"{found['failure']}; clones have the configurations of the head instead")

    def _live_trial(self, number: int, config: dict[str, Any], name: str) -> LiveTrial:
        trainable = str(self.advice.info.get("trainable") or "")
        trial_id = f"{self._id}/{number}"
        return LiveTrial(trial_id, number, config, name, trainable, self.advice.space)

    def _on_start(self, trial: LiveTrial, entry: Entry, callbacks: list[Callback]) -> None:
        if trial.attempt == int(entry["attempt"]):
            return
        if entry.get("params") is not None:  # A clone has another configuration than before.
            trial.reconfigured(restore_values(numbers(entry["params"]), self._table))
        trial.resources = entry.get("resources") or self.advice.resources
        trial.started(int(entry["attempt"]))
        for callback in callbacks:
            callback.on_trial_start(**self._now(), trial=trial)
            if entry.get("restored"):
                callback.on_trial_restore(**self._now(), trial=trial)

    def _on_row(self, trial: LiveTrial, row: dict[str, Any], callbacks: list[Callback]) -> None:
        result = numbers(row)
        result["config"] = trial.config
        trial.update_last_result(result)
        for callback in callbacks:
            told = dict(result)
            callback.on_trial_result(**self._now(), trial=trial, result=told)
            if told.get("should_checkpoint") and not result.get("should_checkpoint"):
                self._warn(
                    f"{type(callback).__name__} set should_checkpoint, which no trial hears of; "
                    "return it from step(), or use checkpoint_frequency"
                )
        if result.get("done"):
            return  # It ends by itself; its end is handled later.
        stops = [stopper(trial.trial_id, result) for stopper in self.advice.stoppers]
        for stopper in self.advice.stoppers:
            if stopper.stop_all() and self._live:
                self._stop_all = f"{type(stopper).__name__} ended the search"
        if any(stops):
            self._tell_complete(trial, result)
            self._stop(trial, "a stopper ended it", early=False)
            return
        verdict = TrialScheduler.CONTINUE
        if self.advice.scheduler is not None:
            verdict = self.advice.scheduler.on_trial_result(self._controller, trial, result)
        self._follow(trial, verdict, result)

    def _follow(self, trial: LiveTrial, verdict: Any, result: dict[str, Any]) -> None:
        searcher = self.advice.searcher
        if verdict == TrialScheduler.STOP:
            trial.told = True
            if searcher is not None:
                searcher.on_trial_complete(trial.trial_id, result=result)
            self._stop(trial, f"{type(self.advice.scheduler).__name__} stopped it", early=True)
            return
        if verdict == TrialScheduler.PAUSE:
            self._pause(trial)
            if searcher is not None:
                searcher.on_pause(trial.trial_id)
            return
        if verdict not in (TrialScheduler.CONTINUE, TrialScheduler.NOOP):
            name = type(self.advice.scheduler).__name__
            raise ValueError(f"{name}.on_trial_result returned {verdict!r}")
        if searcher is not None:
            searcher.on_trial_result(trial.trial_id, result)
        self._allocate(trial, result)

    def _allocate(self, trial: LiveTrial, result: dict[str, Any]) -> None:
        """Asks the user's function for the trial's resources; the same answer is given once."""
        owner = self.advice.allocator
        if owner is None or owner.allocate is None:
            return
        found = allocated(owner.allocate, self._controller, trial, result, owner)
        if found is None or found == trial.allocated:
            return
        trial.allocated = found
        if self._live:
            self._allocated[trial.number] = {"number": trial.number, "resources": found}

    def _pause(self, trial: LiveTrial) -> None:
        trial.status, trial.released = PAUSED, False
        if self._live:
            self._pauses.append(trial.number)

    def _on_checkpoint(self, trial: LiveTrial, entry: Entry, callbacks: list[Callback]) -> None:
        trial.checkpoint = remote_checkpoint(
            trial.trial_id, str(entry["manifest"]), entry.get("parts") or ()
        )
        for callback in callbacks:
            callback.on_trial_save(**self._now(), trial=trial)
            callback.on_checkpoint(**self._now(), trial=trial, checkpoint=trial.checkpoint)

    def _on_attempt_end(self, trial: LiveTrial, entry: Entry, callbacks: list[Callback]) -> None:
        trial.status = PAUSED if trial.status == PAUSED else PENDING
        trial.error_message = str(entry["reason"] or "")
        if entry["outcome"] != "FAILED":
            return
        trial.num_failures += 1
        if not entry["goes_on"]:
            return
        for callback in callbacks:
            callback.on_trial_recover(**self._now(), trial=trial)

    def _on_end(self, trial: LiveTrial, entry: Entry, callbacks: list[Callback]) -> None:
        ran = trial.attempt > 0
        trial.ended(bool(entry["failed"]))
        if not trial.told:
            self._tell_end(trial, ran)
        for callback in callbacks:
            if trial.status == ERROR:
                callback.on_trial_error(**self._now(), trial=trial)
            else:
                callback.on_trial_complete(**self._now(), trial=trial)

    def _tell_end(self, trial: LiveTrial, ran: bool) -> None:
        if trial.status == TERMINATED and ran:
            return self._tell_complete(trial, trial.last_result)
        trial.told = True
        scheduler, searcher = self.advice.scheduler, self.advice.searcher
        if scheduler is not None and trial.status == ERROR:
            scheduler.on_trial_error(self._controller, trial)
        elif scheduler is not None:
            scheduler.on_trial_remove(self._controller, trial)
        if searcher is not None:
            searcher.on_trial_complete(trial.trial_id, error=trial.status == ERROR)
        return None

    def _tell_complete(self, trial: LiveTrial, result: dict[str, Any]) -> None:
        trial.told = True
        if self.advice.scheduler is not None:
            self.advice.scheduler.on_trial_complete(self._controller, trial, result)
        if self.advice.searcher is not None:
            self.advice.searcher.on_trial_complete(trial.trial_id, result=result or None)

    def _stop_trial(self, trial: LiveTrial) -> None:
        self._stop(trial, f"{type(self.advice.scheduler).__name__} stopped it", early=True)

    def _stop(self, trial: LiveTrial, reason: str, early: bool) -> None:
        if not self._live:
            return  # It has this answer already.
        stop = {"number": trial.number, "early": early, "reason": reason}
        self._stops.setdefault(trial.number, stop)

    # --- configurations -----------------------------------------------------------------------

    def _suggest(self, asked: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
        """Configurations for the requested trials, and whether the search has no more of them."""
        suggestions: list[dict[str, Any]] = []
        self._considered = []
        for each in asked:
            number = int(each["number"])
            params = each["params"]
            if self.advice.searcher is not None:
                found = self.advice.searcher.suggest(f"{self._id}/{number}")
                if isinstance(found, str) and found == FINISHED:
                    return suggestions, True
                if found is None:
                    self._considered = [int(one["number"]) for one in asked]
                    break
                params = suggested(self.advice.searcher, params, found)
            suggestions.append(self._suggestion(number, params))
        return suggestions, False

    def _suggestion(self, number: int, params: dict[str, Any]) -> dict[str, Any]:
        config = restore_values(numbers(copy.deepcopy(params)), self._table)
        seed = self.advice.seed
        source = random.Random(None if seed is None else f"{seed}/{number}")
        resolve(config, self.advice.computed, source)
        for path, _ in self.advice.computed:
            place(params, path, json_value(value_at(config, path), path))
        found: dict[str, Any] = {"number": number, "params": params}
        trial = self._live_trial(number, config, f"{self._id}_{number:05d}")
        if self.advice.name_of is not None:
            found["name"] = trial.trial_name = str(self.advice.name_of(trial))
        if self.advice.directory_of is not None:
            found["directory"] = str(self.advice.directory_of(trial))
        if self.advice.resources_of is not None:
            asked = self.advice.resources_of(copy.deepcopy(config))
            if asked is not None:
                found["resources"] = resources_spec(as_request(asked))
        return found

    def _suggest_again(self, searcher: Searcher, entry: Entry) -> None:
        """Replays a suggestion that the searcher made in an earlier run of the driver."""
        found = searcher.suggest(f"{self._id}/{entry['number']}")
        known = entry["params"] or {}
        again = json_config(merged(known, found)) if isinstance(found, dict) else None
        if again != known:
            self._warn(
                f"{type(searcher).__name__} does not suggest again what it did before this driver "
                "was restarted; give it a seed. The trials keep their configurations"
            )

    def _warn(self, text: str) -> None:
        """Each item once."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=2)


# Functions of the user's are called below these.
ENTRIES = (Advisors.attach.__code__, Advisors.poll.__code__)
