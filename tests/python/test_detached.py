"""The process of a detached actor whose constructor raises (rt/core/_desk.py), and handles whose
actor's name another one has by now."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fake_worker import FakeWorker
from rt._errors import RtError
from rt.core._desk import ACTOR_FILE
from rt.core._detached import Detached
from rt.core._dial import ACTORS_PROCESS, KILL, Greeting, boot_id, listen
from rt.core._remote import make_function
from rt.core._values import pack
from rt.exceptions import ActorDiedError

PACKAGE = str(Path(__file__).resolve().parents[2] / "python")


def raises_as_usual() -> None:
    raise KeyError("no data")


def raises_what_has_no_text() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError("none")

    raise Odd()


def raises_deep_below() -> None:
    def down(left: int) -> None:
        if not left:
            raise ValueError("at the bottom" + "!" * 5000)
        exec("down(left - 1) # " + "é" * 200, {"down": down, "left": left})

    down(100)


def run_actor(made: Callable[[], None], worker: FakeWorker, tmp_path: Path) -> tuple[int, str]:
    """(the exit code of the executor, what its actor wrote to stderr)."""

    class Broken:
        def __init__(self) -> None:
            made()

    function = make_function("Broken", Broken)
    actor = {
        "class": "Broken", "digest": function.digest, "blob": function.blob, "methods": {},
        "packed": pack(((), {}))[0], "options": {}, "sources": {}, "path": [],
    }  # fmt: skip
    (tmp_path / ACTOR_FILE).write_bytes(pickle.dumps(actor))
    (tmp_path / "config").write_text(json.dumps({"secret": "s" * 32}))
    trial = tmp_path / "trial"
    trial.mkdir()
    env = {
        **os.environ, **worker.env(), "RT_ACTOR": str(tmp_path),
        "PYTHONPATH": f"{PACKAGE}:{Path(__file__).parent}",  # The functions are found by name.
        "RT_CONFIG": str(tmp_path / "config"), "RT_TRIAL_DIR": str(trial),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "rt._executor"], env=env, stderr=subprocess.PIPE, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("made", "kind", "message", "last"),
    [
        (raises_as_usual, "KeyError", "'no data'", "KeyError: 'no data'"),
        (raises_what_has_no_text, "Odd", "", "Odd: <exception str() failed>"),
        (raises_deep_below, "ValueError", ("at the bottom" + "!" * 5000)[:1000], "!!!!!"),
    ],
)
def test_the_daemon_is_told_what_the_constructor_raised(
    made: Callable[[], None], kind: str, message: str, last: str, tmp_path: Path
) -> None:
    worker = FakeWorker(str(tmp_path))
    code, stderr = run_actor(made, worker, tmp_path)
    assert code == 1
    assert "Broken.__init__ raised" in stderr
    (told,) = worker.errors
    found: dict[str, Any] = {name: told[name] for name in ("kind", "message")}
    assert found == {"kind": kind, "message": message}
    assert told["traceback"].endswith(last)
    assert 0 < len(told["traceback"].encode()) <= 8192
    worker.close()


def test_an_actor_that_is_killed_in_its_constructor_says_nothing(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))

    def is_killed() -> None:
        os.kill(os.getpid(), 9)

    code, _ = run_actor(is_killed, worker, tmp_path)
    assert (code, worker.errors) == (137, [])
    worker.close()


class Head:
    """Has one actor of the name: executor 8."""

    def __init__(self) -> None:
        self.ops: list[str] = []

    def call(self, op: str, **_fields: Any) -> Any:
        self.ops.append(op)
        return {"id": 8, "state": "ENDED", "reason": "its constructor was killed"}


class AwayHead(Head):
    """Is away at the first two questions."""

    def call(self, op: str, **fields: Any) -> Any:
        """Raises RtError twice."""
        answer = super().call(op, **fields)
        if len(self.ops) <= 2:
            raise RtError("the head is away", code="UNAVAILABLE")
        return answer


class Ends:
    """As a session's hub, which is told the end of an actor."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ended = threading.Event()
        self.errors: list[Exception] = []
        self.pump = SimpleNamespace(wake=self.ended.set)
        self.actors = SimpleNamespace(end_detached=lambda _actor, error: self.errors.append(error))
        self.schedule = SimpleNamespace(places=SimpleNamespace(is_closed=False))


@pytest.mark.parametrize(
    ("executor", "said", "killed"),
    [(7, "another one has its name now", False), (8, "its constructor was killed", True)],
)
def test_a_handle_does_not_reach_another_actor_of_its_name(
    executor: int, said: str, killed: bool
) -> None:
    head, hub = Head(), Ends()
    detached = Detached(head, "s", "secret", hub)  # type: ignore[arg-type]
    actor = SimpleNamespace(options={"name": "counter"}, executor=executor)
    detached.follow(actor)
    assert hub.ended.wait(60)
    (error,) = hub.errors
    assert isinstance(error, ActorDiedError) and said in str(error)
    before = len(head.ops)
    detached.kill(actor)
    detached.close(60)
    assert ("actor_kill" in head.ops[before:]) is killed


def test_a_kill_is_asked_for_again_while_the_head_is_away_also_at_the_end_of_its_session() -> None:
    head, hub = AwayHead(), Ends()
    detached = Detached(head, "s", "secret", hub)  # type: ignore[arg-type]
    actor = SimpleNamespace(options={"name": "counter"}, executor=8, is_killed=False)
    detached.kill(actor)
    detached.close(60)
    assert head.ops == ["actor_get"] * 3 + ["actor_kill"]


def test_an_actor_without_a_process_is_not_waited_for() -> None:
    head, hub = Head(), Ends()
    detached = Detached(head, "s", "secret", hub)  # type: ignore[arg-type]
    actor = SimpleNamespace(options={"name": "counter"}, executor=8, is_killed=False)
    with hub.lock:
        detached.restart(actor, 0)
        assert actor.is_killed  # Nothing connects to it meanwhile.
    detached.close(60)
    assert head.ops == ["actor_get"] and not actor.is_killed


def test_an_actor_of_whose_process_the_head_does_not_know_yet_is_ended(tmp_path: Path) -> None:
    secret = "s" * 32
    (tmp_path / "trial").mkdir()
    (tmp_path / "config.json").write_text(json.dumps({"secret": secret}))
    node = {"boot_id": boot_id()}
    starting = {"id": 8, "state": "STARTING", "node": node, "run_dir": str(tmp_path)}
    head = SimpleNamespace(embedded=False, call=lambda *_args, **_fields: starting)
    hub = Ends()
    detached = Detached(head, "s", secret, hub)  # type: ignore[arg-type]
    actor = SimpleNamespace(options={"name": "counter"}, executor=8, is_killed=False)
    detached.restart(actor, ACTORS_PROCESS)  # Its executor does not listen yet, either.
    with listen(str(tmp_path / "trial")) as executor:
        executor.settimeout(60)
        with executor.accept()[0] as sock:
            greeting = Greeting(sock, time.monotonic() + 60)
            sock.settimeout(60)
            assert greeting.read(secret) == (KILL, ACTORS_PROCESS)
    detached.close(60)
    assert not actor.is_killed
