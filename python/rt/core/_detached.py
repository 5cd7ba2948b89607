"""Detached actors as a session sees them: made through the head, found by name, and followed over
their restarts. All here blocks, and runs in threads of its own, without the hub's lock."""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Optional

from rt import _driver
from rt._errors import RtError
from rt._pack import read_sources
from rt.core._channel import Channel
from rt.core._desk import ACTOR_FILE
from rt.core._dial import ACTOR, KILL, boot_id, dial, dial_path, greet
from rt.core._far import FINAL, second_connection, way_to
from rt.core._places import Slot
from rt.core._values import Shared
from rt.exceptions import ActorDiedError, ActorUnschedulableError, RayError

_LOOK_S = 0.02
_AGAIN_S = 0.2
_HAS_PROCESS = ("STARTING", "RUNNING")


class Detached:
    """The detached actors of a session: those that it made, and those that it found."""

    def __init__(self, driver: _driver.Driver, session: str, secret: str, hub: Any) -> None:
        self._driver = driver
        self._session = session
        self._secret = secret
        self._hub = hub
        self._lock = threading.Lock()
        self._second: Optional[_driver.Driver] = None  # It may wait long.
        self._kills: list[threading.Thread] = []  # Those that may not have reached the actor.
        self._until = math.inf  # How long they try.

    def create(self, actor: Any, spec: Callable[[], dict[str, Any]]) -> None:
        """Asks the head for the actor, in a thread; `spec` makes that of an executor."""
        threading.Thread(target=self._create, args=(actor, spec), daemon=True).start()

    def _create(self, actor: Any, spec: Callable[[], dict[str, Any]]) -> None:
        directory = tempfile.mkdtemp(prefix="rt-actor-")
        options = actor.options
        try:
            packed = actor.call[0]
            if isinstance(packed, Shared):
                pickled, buffers = packed.parts()
                packed = (bytes(pickled), [bytes(each) for each in buffers])
            made = {
                "class": actor.function.name,
                "digest": actor.function.digest,
                "blob": actor.function.blob,
                "methods": options.get("methods") or {},
                "packed": packed,
                "options": {key: options.get(key) for key in (
                    "max_concurrency", "name", "namespace")},
                "sources": read_sources(),
                "path": list(sys.path),
            }  # fmt: skip
            with open(os.path.join(directory, ACTOR_FILE), "wb") as file:
                file.write(pickle.dumps(made, 5))
            manifest = self._driver.push_dir(directory)
            wanted = spec()
            made_by_head = self._driver.call(
                "executor_request", session=self._session, count=1,
                key=f"{self._session}-actor-{actor.id}",
                spec={
                    **wanted,
                    "name": options["name"],
                    "detached": True,
                    "actor": {"name": options["name"], "class": actor.function.name},
                    "max_restarts": int(options.get("max_restarts") or 0),
                    "inputs": [
                        *wanted.get("inputs", []),
                        {"manifest": manifest, "env": "RT_ACTOR"},
                    ],
                },
            )  # fmt: skip
            actor.executor = int(made_by_head["executors"][0])
        except (RtError, ValueError, OSError, pickle.PicklingError) as error:
            self._end(actor, ActorUnschedulableError(str(error)))
            return
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        self._follow(actor)

    def follow(self, actor: Any) -> None:
        """Connects to the actor, in a thread, also after it has moved."""
        threading.Thread(target=self._follow, args=(actor,), daemon=True).start()

    def _follow(self, actor: Any) -> None:
        name = str(actor.options["name"])
        while not self._hub.schedule.places.is_closed:
            try:
                item = self._driver.call("actor_get", name=name)
            except (RtError, ValueError) as error:
                if isinstance(error, RtError) and error.code in _driver.ASK_AGAIN:
                    time.sleep(_AGAIN_S)
                    continue
                self._end(actor, ActorDiedError(f"the actor {name!r} has ended: {error}"))
                return
            actor.executor = actor.executor or int(item["id"])
            if actor.executor != int(item["id"]):
                text = f"the actor {name!r} has ended, and another one has its name now"
                self._end(actor, ActorDiedError(text))
                return
            if item["state"] == "ENDED":
                self._end(actor, ActorDiedError(f"the actor {name!r} has ended: {_why(item)}"))
                return
            is_there = item["state"] in ("RUNNING", "STOPPING") and not actor.is_killed
            if is_there and self._connect(actor, item):
                return
            time.sleep(_LOOK_S)

    def _is_near(self, item: dict[str, Any]) -> bool:
        is_here = item["node"].get("boot_id") == boot_id()
        return self._driver.embedded or (is_here and os.path.isdir(f"{item['run_dir']}/trial"))

    def _dial_near(self, item: dict[str, Any]) -> tuple[socket.socket, str]:
        """A connection to its executor, and its secret. Raises OSError, ValueError and KeyError
        when it does not listen yet."""
        with open(f"{item['run_dir']}/config.json", encoding="utf-8") as file:
            secret = str(json.load(file)["secret"])
        return dial(f"{item['run_dir']}/trial"), secret

    def _dial_far(self, item: dict[str, Any]) -> tuple[socket.socket, str]:
        """The same through the daemons, or from outside of the cluster through the head. Raises
        RtError, too."""
        way = way_to(self._connection(), self._session, int(item["id"]))
        return dial_path(str(way["socket"])), str(item.get("secret") or "")

    def _connect(self, actor: Any, item: dict[str, Any]) -> bool:
        if not self._is_near(item):
            return self._connect_far(actor, item)
        try:
            sock, secret = self._dial_near(item)
        except (OSError, ValueError, KeyError):
            return False  # It does not listen yet.
        return self._reached(actor, item, sock, secret, is_local=True)

    def _connect_far(self, actor: Any, item: dict[str, Any]) -> bool:
        try:
            sock, secret = self._dial_far(item)
        except (RtError, ValueError, OSError) as error:
            if getattr(error, "code", "") not in FINAL:
                time.sleep(_AGAIN_S)
                return False  # It does not listen yet, or has moved.
            name = actor.options["name"]
            where = item["node"].get("name")
            text = f"the actor {name!r} on {where} cannot be reached from here: {error}"
            self._end(actor, RayError(text))
            return True
        return self._reached(actor, item, sock, secret, is_local=False)

    def _reached(
        self, actor: Any, item: dict[str, Any], sock: socket.socket, secret: str, is_local: bool
    ) -> bool:
        try:
            greet(sock, secret, ACTOR, 0)
        except OSError:
            sock.close()
            return False
        channel = Channel(sock, is_local)
        if not is_local:
            channel.post(("far",))
        trial_dir = f"{item['run_dir']}/trial"
        hub = self._hub
        with hub.lock:
            node, number = dict(item["node"]), int(item["id"])
            slot = Slot(number, actor.pool, trial_dir, node, 1, is_local, secret)
            hub.actors.reached(actor, slot, channel)
        hub.pump.wake()
        return True

    def _connection(self) -> _driver.Driver:
        with self._lock:
            if self._second is None:
                self._second = second_connection(self._driver)
            return self._second

    def _end(self, actor: Any, error: Exception) -> None:
        hub = self._hub
        with hub.lock:
            hub.actors.end_detached(actor, error)
        hub.pump.wake()

    def kill(self, actor: Any) -> None:
        """Ends it for good, in a thread; not another one that has its name by now."""
        name = str(actor.options["name"])

        def end() -> None:
            found = int(self._driver.call("actor_get", name=name)["id"])
            if actor.executor in (0, found):
                self._driver.call("actor_kill", name=name, reason="rt.kill")

        self._start(end)

    def restart(self, actor: Any, pid: int) -> None:
        """Ends its process, in a thread, so that the head has it made anew. pid: ACTORS_PROCESS, or
        the process that is meant. Nothing connects to the actor before that is done."""
        actor.is_killed = True
        name = str(actor.options["name"])

        def end() -> None:
            item = self._driver.call("actor_get", name=name)
            # The head may not know yet that a process which starts is there: it may even have been
            # seen by this script.
            if actor.executor not in (0, int(item["id"])) or item["state"] not in _HAS_PROCESS:
                return
            sock, secret = (self._dial_near if self._is_near(item) else self._dial_far)(item)
            with sock:
                greet(sock, secret, KILL, pid)

        def done() -> None:
            with self._hub.lock:
                actor.is_killed = False

        self._start(end, done)

    def _start(self, work: Callable[[], None], done: Callable[[], None] = lambda: None) -> None:
        """Does the work in a thread, again while the head is away or the actor's executor does not
        listen yet."""

        def run() -> None:
            try:
                while time.monotonic() < self._until:
                    try:
                        work()
                        return
                    except (RtError, ValueError, KeyError, OSError) as error:
                        code = getattr(error, "code", "")
                        if code in (*FINAL, "NOT_FOUND", _driver.BRIDGE_ENDED):
                            return  # It has ended, or the thread that connects says why.
                    time.sleep(_AGAIN_S)
            finally:
                done()

        self._kills = [each for each in self._kills if each.is_alive()]
        self._kills.append(threading.Thread(target=run, daemon=True))
        self._kills[-1].start()

    def close(self, within_s: float) -> None:
        """Waits at most so long for what is to be killed."""
        self._until = time.monotonic() + within_s
        for each in self._kills:
            each.join(max(0.0, self._until - time.monotonic()))

    def check(self, name: str) -> None:
        """Raises ValueError when there is none of the name, with the reason of one that died."""
        try:
            found: dict[str, Any] = self._driver.call("actor_get", name=name)
        except RtError as error:
            if error.code == "NOT_FOUND":
                raise ValueError(f"no actor has the name {name!r}") from None
            raise
        if found["state"] == "ENDED":
            raise ValueError(f"the actor {name!r} has ended: {_why(found)}")


def _why(item: dict[str, Any]) -> str:
    """Why it has ended; with the traceback of a constructor that raised."""
    error = item.get("error")
    if error and error.get("traceback"):
        made = (item.get("actor") or {}).get("class") or item.get("name")
        return f"the constructor of {made} raised:\n{error['traceback']}"
    return str(item.get("reason") or "it was stopped")
