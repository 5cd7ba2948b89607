"""A function of the user's that does not return: it is told, and interrupted when it is useless."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asking_head import Head, created, entry, row
from rt import tune
from rt.tune import _hangs
from rt.tune._advice import Advice, Advisors
from rt.tune._progress import _Interrupts
from rt.tune._reallocation import ResourceChangingScheduler
from rt.tune.stopper import FunctionStopper

DEADLINE_S = 20.0


class Asker(Head):
    """Also takes `driver_call`; the search has ended, or has not."""

    def __init__(self, ended: bool) -> None:
        super().__init__()
        self.ended = ended
        self.told: list[dict[str, Any]] = []

    def call(self, op: str, **fields: Any) -> Any:
        if op != "driver_call":
            return super().call(op, **fields)
        self.told.append(fields)
        return {"ended": self.ended}


class Rows(tune.Callback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_trial_result(self, **info: Any) -> None:
        self.seen.append(info["result"]["training_iteration"])

    def on_experiment_end(self, trials: Any, **info: Any) -> None:
        self.seen.append("end")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hangs, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(_hangs, "TOLD_AFTER_S", 0.05)
    monkeypatch.setattr(_hangs, "TOLD_EVERY_S", 0.05)
    monkeypatch.setattr(_hangs, "ANSWER_LIMIT_S", 0.1)


@pytest.fixture
def said() -> list[str]:
    return []


def sleep_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def attached(said: list[str]) -> Iterator[Callable[..., Advisors]]:
    made: list[Advisors] = []

    def attach(head: Asker, **parts: Any) -> Advisors:
        advisors = Advisors(Advice(**parts), {})
        made.append(advisors)
        advisors.attach(head, 7, said.append)  # type: ignore[arg-type]
        return advisors

    yield attach
    for each in made:
        assert each.watch is not None
        each.watch.close()


def say_all(head: Asker) -> None:
    """Three rows, and the end of the trial and of the search."""
    head.say(created(2), entry(3, "start", rank=0), row(4, 1), row(5, 2))
    head.say(row(6, 3))
    head.say(entry(7, "end", failed=False, completed=True, reason=""), ended=True)
    head.say(ended=True)


def test_the_head_is_told_which_function_runs_and_for_how_long(
    attached: Callable[..., Advisors],
) -> None:
    head = Asker(ended=False)

    def patient(trial_id: str, result: dict[str, Any]) -> bool:
        sleep_until(lambda: len(head.told) >= 2)
        return False

    advisors = attached(head, stoppers=[FunctionStopper(patient)])
    head.say(created(2), entry(3, "start", rank=0), row(4, 1))
    advisors.poll(0)
    first = head.told[0]
    assert (first["experiment_id"], first["session"]) == (7, 1)
    assert first["function"].startswith("stop function patient (test_hangs.py:")
    assert 0 < first["for_s"] < head.told[1]["for_s"]
    assert len(head.answers) == 1  # It ran to its end.


WAITS = """
def wait(op, **fields):
    count, end = len(looks), time.monotonic() + 20
    while len(looks) < count + 10 and time.monotonic() < end:
        threading.Event().wait(0.01)
    return answer(op, **fields)
"""


def test_nothing_is_told_where_the_driver_waits_for_the_head(
    attached: Callable[..., Advisors],
) -> None:
    head = Asker(ended=False)
    looks: list[Any] = []
    advisors = attached(head, stoppers=[FunctionStopper(lambda *_: False)])
    watch = advisors.watch
    assert watch is not None
    look = watch.look
    watch.look = lambda: (look(), looks.append(watch._call))  # type: ignore[method-assign]

    # A driver is of this package, and waits in the standard library.
    code = compile(WAITS, _hangs.__file__, "exec")
    scope = {"looks": looks, "time": time, "answer": head.call, "threading": threading}
    exec(code, scope)
    wait = scope["wait"]
    head.call = wait  # type: ignore[method-assign]
    head.say(ended=True)
    advisors.poll(0)
    assert head.told == [] and len(looks) >= 10 and set(looks) == {None}


@pytest.mark.parametrize("kind", ["stop", "scheduler", "allocation"])
def test_a_function_that_hangs_after_the_end_is_interrupted(
    kind: str, attached: Callable[..., Advisors], said: list[str]
) -> None:
    head, rows, calls = Asker(ended=True), Rows(), []

    def hang(*_: Any) -> Any:
        calls.append(1)
        time.sleep(DEADLINE_S)
        raise AssertionError("it was not interrupted")

    class Hangs(tune.schedulers.TrialScheduler):
        def on_trial_result(self, tune_controller: Any, trial: Any, result: Any) -> str:
            return str(hang())

    parts: dict[str, Any] = {
        "stop": {"stoppers": [FunctionStopper(hang)]},
        "scheduler": {"scheduler": Hangs()},
        "allocation": {"allocator": ResourceChangingScheduler(None, hang)},
    }[kind]
    advisors = attached(head, callbacks=[rows], **parts)
    say_all(head)
    with _Interrupts(lambda: said.append("Ctrl-C"), advisors.watch):
        while not advisors.ended:
            advisors.poll(0)
    assert calls == [1]
    assert rows.seen == [1, 2, 3, "end"]  # Callbacks hear of all that follows.
    role = {"stop": "stop function", "allocation": "resources_allocation_function"}.get(kind, "")
    name = f"{role} hang" if role else "Hangs.on_trial_result"
    assert any(text.startswith(f"{name} (test_hangs.py:") for text in said), said
    assert any("it is interrupted, and is not called again" in text for text in said), said
    assert "Ctrl-C" not in said


@pytest.mark.parametrize("kind", ["C", "the standard library"])
def test_a_function_that_is_not_the_users_code_is_named_and_interrupted(
    kind: str, attached: Callable[..., Advisors], said: list[str]
) -> None:
    head, rows = Asker(ended=True), Rows()
    lock = threading.Lock()
    lock.acquire()

    class Stops(FunctionStopper):
        stop_all = staticmethod(  # type: ignore[assignment]
            functools.partial(lock.acquire, timeout=DEADLINE_S)
            if kind == "C"
            else functools.partial(threading.Event().wait, DEADLINE_S)
        )

    advisors = attached(head, callbacks=[rows], stoppers=[Stops(lambda *_: False)])
    say_all(head)
    with _Interrupts(lambda: said.append("Ctrl-C"), advisors.watch):
        while not advisors.ended:
            advisors.poll(0)
    assert rows.seen == [1, 2, 3, "end"]
    name = "stopper.stop_all (no Python function)"
    assert any(text.startswith(f"{name} has not returned") for text in said), said
    assert head.told and head.told[0]["function"] == name
    assert "Ctrl-C" not in said


def test_a_callback_is_interrupted_much_later(
    attached: Callable[..., Advisors], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = Asker(ended=True)

    class Uploads(Rows):
        def on_trial_result(self, **info: Any) -> None:
            super().on_trial_result(**info)
            sleep_until(lambda: len(head.told) >= 10)  # Longer than ANSWER_LIMIT_S.
            monkeypatch.setattr(_hangs, "CALLBACK_LIMIT_S", 0.0)
            time.sleep(DEADLINE_S)
            raise AssertionError("it was not interrupted")

    rows = Uploads()
    advisors = attached(head, callbacks=[rows])
    say_all(head)
    with _Interrupts(lambda: said.append("Ctrl-C"), advisors.watch):
        while not advisors.ended:
            advisors.poll(0)
    assert rows.seen == [1]
    assert len(said) == 1 and "Uploads.on_trial_result" in said[0]


def test_ctrl_c_in_a_function_is_the_users_own(
    attached: Callable[..., Advisors], said: list[str]
) -> None:
    head = Asker(ended=False)
    advisors = attached(head, stoppers=[FunctionStopper(lambda *_: False)])
    with _Interrupts(lambda: said.append("Ctrl-C"), advisors.watch) as interrupts:
        import signal

        signal.raise_signal(signal.SIGINT)
        assert interrupts.requested and said == ["Ctrl-C"]
