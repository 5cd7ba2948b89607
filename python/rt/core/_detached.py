"""Detached actors as a session sees them: made through the head, found by name, and followed over
their restarts. All here blocks, and runs in threads of its own, without the hub's lock."""

from __future__ import annotations

import contextlib
import json
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
from rt.core._dial import ACTOR, boot_id, dial, dial_path, greet
from rt.core._far import FINAL, second_connection, way_to
from rt.core._places import Slot
from rt.core._values import Shared
from rt.exceptions import ActorDiedError, ActorUnschedulableError, RayError

_LOOK_S = 0.02
_AGAIN_S = 0.2


class Detached:
    """The detached actors of a session: those that it made, and those that it found."""

    def __init__(self, driver: _driver.Driver, session: str, secret: str, hub: Any) -> None:
        self._driver = driver
        self._session = session
        self._secret = secret
        self._hub = hub
        self._lock = threading.Lock()
        self._second: Optional[_driver.Driver] = None  # It may wait long.

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
            if item["state"] in ("RUNNING", "STOPPING") and self._connect(actor, item):
                return
            time.sleep(_LOOK_S)

    def _connect(self, actor: Any, item: dict[str, Any]) -> bool:
        trial_dir = f"{item['run_dir']}/trial"
        is_near = item["node"].get("boot_id") == boot_id() and os.path.isdir(trial_dir)
        if not is_near and not self._driver.embedded:
            return self._connect_far(actor, item)
        try:
            with open(f"{item['run_dir']}/config.json", encoding="utf-8") as file:
                secret = str(json.load(file)["secret"])
            sock = dial(trial_dir)
        except (OSError, ValueError, KeyError):
            return False  # It does not listen yet.
        return self._reached(actor, item, sock, secret, is_local=True)

    def _connect_far(self, actor: Any, item: dict[str, Any]) -> bool:
        """Through the daemons, or from outside of the cluster through the head."""
        try:
            way = way_to(self._connection(), self._session, int(item["id"]))
            sock = dial_path(str(way["socket"]))
        except (RtError, ValueError, OSError) as error:
            if getattr(error, "code", "") not in FINAL:
                time.sleep(_AGAIN_S)
                return False  # It does not listen yet, or has moved.
            name = actor.options["name"]
            where = item["node"].get("name")
            text = f"the actor {name!r} on {where} cannot be reached from here: {error}"
            self._end(actor, RayError(text))
            return True
        return self._reached(actor, item, sock, str(item.get("secret") or ""), is_local=False)

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

    def kill(self, actor: Any) -> threading.Thread:
        """Ends it for good, in a thread; not another one that has its name by now."""
        name = str(actor.options["name"])

        def work() -> None:
            with contextlib.suppress(RtError, ValueError):
                found = int(self._driver.call("actor_get", name=name)["id"])
                if actor.executor in (0, found):
                    self._driver.call("actor_kill", name=name, reason="rt.kill")

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

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
