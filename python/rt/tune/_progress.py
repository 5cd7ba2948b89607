"""Waits for the end of a search: progress on a screen or on standard error, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any, Callable, Optional

from rt._driver import Driver
from rt._json import shown
from rt.tune._advice import Advisors
from rt.tune._hangs import HangWatch
from rt.tune._screen import Screen, open_screen
from rt.tune._trial_base import AnyTrial

HOLD_MS = 500  # How long a wait is held; also how late Ctrl-C may be noticed.
SHOW_MS = 250  # The same with a screen, which is drawn after each wait.
PRINT_EVERY_S = 5.0
LOOK_EVERY_S = 0.2  # How often the experiment's own state is asked for, between its questions.
TERMINAL = ("COMPLETED", "STOPPED", "FAILED")


class Progress:
    """Shows a live screen if the output has one; otherwise prints a line after a change, at most
    every PRINT_EVERY_S seconds."""

    def __init__(self, verbose: Optional[int], created: dict[str, Any], embedded: bool) -> None:
        self._quiet = verbose == 0
        self._embedded = embedded
        self._id = created.get("experiment_id")
        self._results_dir = created.get("results_dir") or ""
        self._started = self._printed_at = time.monotonic()
        self._final = False  # Whether its end was printed.
        self._printed = ""
        self._screen: Optional[Screen] = None
        self._note = ""  # A note for the screen, from the signal handler.
        if created.get("attached"):
            how = "all of which had ended" if created.get("ended") else "which is under way"
            self.say(f"went back to experiment {self._id}, {how}")

    def on_screen(self, driver: Driver) -> contextlib.AbstractContextManager[Any]:
        """While entered, `update` draws on the screen that this process has, if any."""
        if not self._quiet and self._id is not None:
            self._screen = open_screen(driver, int(self._id))
        return self._screen or contextlib.nullcontext()

    @property
    def has_screen(self) -> bool:
        """Whether it draws on a screen."""
        return self._screen is not None

    def say(self, text: str) -> None:
        """Prints one line unless verbose is 0."""
        if not self._quiet:
            print(f"rt: {text}", file=sys.stderr, flush=True)

    def say_above(self, text: str) -> None:
        """Prints one line above the screen, if there is one; also from another thread."""
        if self._screen is not None:
            self._screen.above(f"rt: {text}")
        else:
            self.say(text)

    def update(self, experiment: dict[str, Any]) -> None:
        """Shows the progress of the search."""
        final = experiment.get("state") in TERMINAL
        if final and self._final:
            return  # Its advisors have unread records.
        self._final = final
        now = time.monotonic()
        if self._screen is not None:
            if self._note:
                note, self._note = self._note, ""
                self._screen.above(note.rstrip("\n"))
            self._screen.show(final)
            if not final:
                return
            self._screen.leave()  # Later output appears below the screen.
        if not final and now - self._printed_at < PRINT_EVERY_S:
            return
        self._printed_at = now
        text = self._line(experiment)
        if final:
            reason = experiment.get("reason")
            ended = str(experiment.get("state")).lower() + (f" ({reason})" if reason else "")
            self.say(f"{text}; {ended} after {now - self._started:.1f} s; {self._results_dir}")
            if problem := experiment.get("results_problem"):
                self.say(f"some results could not be written: {problem}")
        elif text != self._printed:
            self.say(text)
        self._printed = text

    def _line(self, experiment: dict[str, Any]) -> str:
        states = {k.upper(): int(v) for k, v in (experiment.get("trials_by_state") or {}).items()}
        done = sum(states.get(state, 0) for state in TERMINAL)
        total = experiment.get("trials_total")
        text = f"{done}/{total} trials" if total is not None else f"{done} trials"
        if states.get("RUNNING"):
            text += f", {states['RUNNING']} running"
        if states.get("FAILED"):
            text += f", {states['FAILED']} failed"
        best = experiment.get("best") or {}
        if best.get("value") is not None:
            metric = experiment.get("metric") or "value"
            text += f"; best so far {metric}={float(best['value']):.6g} (step {best.get('step')})"
            text += f" with {shown(best.get('params'))}"
        return text

    def failures(self, trials: Iterable[AnyTrial]) -> None:
        """Shows the first failed trial's traceback, and the number of failed trials."""
        failed = [trial for trial in trials if trial.state == "FAILED"]
        if failed and not self._quiet:
            self.say(f"{len(failed)} failed; the first of them, {failed[0].error}")

    def interrupted(self) -> None:
        """Says what the first Ctrl-C does, and how to resume later."""
        text = "rt: stopping after the current steps; Ctrl-C again stops at once\n"
        where = self._results_dir
        text += f"rt: reports and checkpoints are kept in {where}; what was cut off goes on with\n"
        text += f"rt:   tune.Tuner.restore({where!r}, trainable).fit()\n"
        if self._screen is not None:
            self._note = text
            return
        # Not through sys.stderr: this runs in a signal handler, perhaps in the middle of a print.
        with contextlib.suppress(OSError):
            os.write(2, text.encode())


class _Interrupts:
    """While entered: the first SIGINT is noted, the second raises KeyboardInterrupt."""

    def __init__(self, say: Callable[[], None], watch: Optional[HangWatch]) -> None:
        self.requested = False
        self._say = say
        self._watch = watch
        self._previous: Any = None
        self._installed = False

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._on_signal)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._previous)

    def _on_signal(self, _number: int, frame: Optional[FrameType]) -> None:
        if self._watch is not None and self._watch.takes_signal(frame):
            return
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._say()


def wait_for_end(
    driver: Driver, experiment_id: int, progress: Progress, advisors: Optional[Advisors] = None
) -> dict[str, Any]:
    """The experiment as it is at its end. Raises KeyboardInterrupt at the second Ctrl-C.

    `advisors` answer its questions meanwhile, and have seen all records when this returns.
    """
    stopping = False
    looked_at = -LOOK_EVERY_S
    watch = None if advisors is None else advisors.watch
    with _Interrupts(progress.interrupted, watch) as interrupts, progress.on_screen(driver):
        while True:
            hold_ms = SHOW_MS if progress.has_screen else HOLD_MS
            if advisors is not None:
                hold_ms = 0  # The advisors' question waits instead.
                advisors.poll(HOLD_MS)
                due = advisors.ended or time.monotonic() - looked_at >= LOOK_EVERY_S
                if not due and not interrupts.requested:
                    continue
                looked_at = time.monotonic()
            experiment = driver.call(
                "experiment_wait", experiment_id=experiment_id, until_end=True, hold_ms=hold_ms
            )
            progress.update(experiment)
            if experiment.get("state") in TERMINAL and (advisors is None or advisors.ended):
                return dict(experiment)
            if interrupts.requested and not stopping:
                stopping = True
                driver.call(
                    "experiment_stop",
                    experiment_id=experiment_id,
                    reason="interrupted by Ctrl-C",
                )
