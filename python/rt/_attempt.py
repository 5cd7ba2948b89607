"""One attempt at one trial, in a process of its own (rt/_trial.py) or in a fork (rt/_warm.py).

Unpickles the trainable, builds the configuration, runs the function or class, and ends with an exit
code: 0 it returned or met a stop rule, 1 it raised (the error was sent), 143 SIGTERM.
"""

from __future__ import annotations

import inspect
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
from types import GeneratorType
from typing import Any, Callable, Optional

from rt import _api, _main, _session, _signals, _sources
from rt._checkpoint import Checkpoint
from rt._collector import rarely_collecting
from rt._json import numbers
from rt._session import Session, TrialStopped
from rt._traceback import message_of, user_traceback
from rt._trainable import Trainable, takes_checkpoint_dir
from rt._values import restore_values

PAYLOAD_FILE = "trainable.pkl"
EXIT_FAILED = 1
EXIT_TERMINATED = 143


def load_payload() -> dict[str, Any]:
    """The payload that the driver packed (rt/_pack.py), its `own` names (rt/_main.py), and `call`:
    the arguments of a function.

    Raises the errors of unpickling.
    """
    root = os.environ["RT_TRAINABLE"]
    path = os.path.join(root, PAYLOAD_FILE) if os.path.isdir(root) else root
    with open(path, "rb") as file:
        payload: dict[str, Any] = pickle.load(file)
    _sources.install(payload.pop("sources", None))
    payload["own"] = {}
    for key in ("values", "trainable", "kept_config"):
        payload[key], own = _main.loads(payload[key]) if payload.get(key) else (None, {})
        payload["own"].update(own)
    payload["call"] = _wanted_arguments(payload["trainable"])
    return payload


def read_config(session: Session, payload: dict[str, Any]) -> dict[str, Any]:
    """The trial's configuration, including the values that JSON could not hold."""
    params = session.params
    path = os.environ.get("RT_CONFIG")
    if not params and path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            params = json.load(file)
    restored = restore_values(numbers(params), payload["values"], strict=True)
    assert isinstance(restored, dict)
    return restored


def run_function(
    function: Callable[..., Any],
    config: dict[str, Any],
    wanted: Optional[tuple[str, ...]] = None,
) -> None:
    """Calls the function, and reports a dict or number that it returns or yields.

    `wanted`: the result of _wanted_arguments, if it is known.
    """
    known: dict[str, Any] = {"config": config, "reporter": _api.report}
    if wanted is None:
        wanted = _wanted_arguments(function)
    arguments = [known[name] for name in wanted if name in known]
    if "checkpoint_dir" in wanted:
        result = function(*arguments, checkpoint_dir=_restored_dir())
    else:
        result = function(*arguments)
    if isinstance(result, GeneratorType):
        for item in result:
            _report_returned(item)
    elif result is not None:
        _report_returned(result)


def _restored_dir() -> Optional[str]:
    restored = _api.get_checkpoint()
    return restored.path if restored is not None else None


def _wanted_arguments(function: Any) -> tuple[str, ...]:
    """The arguments that the function takes: config, reporter (oldest scripts), checkpoint_dir."""
    if isinstance(function, type):
        return ("config",)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ("config",)
    restored = ("checkpoint_dir",) if takes_checkpoint_dir(function) else ()
    positional = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if not positional and not any(each.kind == each.VAR_POSITIONAL for each in parameters):
        return restored
    if len(positional) > 1 and positional[1].name == "reporter":
        return ("config", "reporter", *restored)
    return ("config", *restored)


def _report_returned(value: Any) -> None:
    if isinstance(value, dict):
        _api.report(value)
        return
    try:
        number = float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise TypeError(f"a trainable returns a dict, a number or nothing, not {kind}") from None
    except OverflowError:
        number = value  # report() says what is wrong with it.
    _api.report({"_metric": number})


def keep_object(payload: dict[str, Any]) -> None:
    """Sets up the object that all trials of a node begin with (TuneConfig.reuse_actors).

    It has a configuration that the driver drew from the space. If the set-up raises, each trial
    sets up its own object, and so reports the error.
    """
    if payload.get("kept_config") is None:
        return
    try:
        payload["kept"] = payload["trainable"](payload["kept_config"])
    except Exception as error:
        what = f"{type(error).__name__}: {message_of(error)}"
        print(f"rt: reuse_actors: the set-up raised {what}", file=sys.stderr, flush=True)


def _made(cls: type[Trainable], config: dict[str, Any], kept: Optional[Trainable]) -> Trainable:
    """The kept object, if it can be reset to the configuration; else a new one."""
    if kept is not None:
        kept.config = config
        if kept.reset_config(config):
            return kept
    return cls(config)


def run_class(cls: type[Trainable], config: dict[str, Any], payload: dict[str, Any]) -> None:
    """Runs steps of the class until a stop rule, a verdict, `done` or SIGTERM ends the trial."""
    session = _session.current
    assert session is not None
    trainable = _made(cls, config, payload.get("kept"))
    try:
        restored = _api.get_checkpoint()
        if restored is not None:
            trainable.restore(restored.path)
            if restored.path == _api.given_checkpoint():
                session.go_on_from(trainable.iteration)
        trainable._iteration = int(session.iteration)
        while True:
            _class_step(session, trainable, payload)
    finally:
        trainable.stop()


def _class_step(session: Session, trainable: Trainable, payload: dict[str, Any]) -> None:
    result = trainable.train()
    frequency = int(payload.get("checkpoint_frequency") or 0)
    wanted = _api.checkpoint_requested() is not None and trainable.can_save
    ends = session.stopping or session.ends_with(result)
    # A rank other than 0 that cannot save continues until rank 0 saved.
    last = ends or (session.pausing and (session.rank == 0 or trainable.can_save))
    wanted = wanted or (bool(frequency) and trainable.iteration % frequency == 0)
    wanted = wanted or bool(result.get("should_checkpoint"))
    if payload.get("checkpoint_at_end"):
        wanted = wanted or last or session.milestone_ahead(result)
    if payload.get("checkpoint_at_milestones") and session.world_size == 1:
        wanted = wanted or (trainable.can_save and session.milestone_ahead(result))
    if not wanted:
        _api.report(result)
    else:
        _report_checkpoint(trainable, result)
    if session.pausing and not wanted and not ends and trainable.can_save:
        # The request came with the verdict of the row: save the state of that row here.
        _report_checkpoint(trainable, result, session.attach)
        wanted = True
    if (session.pausing or (session.moving and wanted)) and not ends:
        session.leave(wanted)
    if last and (ends or session.pausing):
        session.ended = True
        raise TrialStopped()


def _report_checkpoint(
    trainable: Trainable, result: dict[str, Any], report: Callable[..., None] = _api.report_together
) -> None:
    parent = os.environ.get("RT_TRIAL_DIR") or None
    staging = tempfile.mkdtemp(prefix=".checkpoint-", dir=parent)
    try:
        trainable.save(staging)
        checkpoint = Checkpoint(staging)
        checkpoint.is_given = True
        report(result, checkpoint=checkpoint)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _choose_directory(drivers: str, trial_dir: bool) -> None:
    """Sets Ray's variable to the directory of the script's files; `trial_dir`: leaves it.

    The files are where the trial began, except those of a plain script that uses a cluster on its
    machine.
    """
    elsewhere = not os.environ.get("RT_BUNDLE") and os.path.isdir(drivers)
    os.environ["TUNE_ORIG_WORKING_DIR"] = drivers if elsewhere else os.getcwd()
    if not trial_dir:
        return
    path = os.environ.get("PYTHONPATH")
    if path:  # For the trial's children: the path may be relative to the first directory.
        parts = [os.path.abspath(part) for part in path.split(os.pathsep) if part]
        os.environ["PYTHONPATH"] = os.pathsep.join(parts)
    os.chdir(os.environ["RT_TRIAL_DIR"])


def run_trial(session: Session, loaded: Optional[dict[str, Any]] = None) -> int:
    """Runs the trial to its end; returns the exit code. `loaded`: the result of load_payload."""
    try:
        if loaded is None:
            with rarely_collecting():
                loaded = load_payload()
        payload = loaded
        trainable = payload["trainable"]
        _main.stand_in(payload["own"])
        session.experiment_name = str(payload.get("experiment") or "")
        given = os.environ.get("RT_RESOURCES")  # For a trial with its own resource request.
        session.resources = json.loads(given) if given else dict(payload.get("resources") or {})
        config = read_config(session, payload)
        _choose_directory(str(payload.get("cwd") or ""), bool(payload.get("chdir")))
        is_class = isinstance(trainable, type)
        session.handle_signals(raises=not is_class)
        if is_class:
            run_class(trainable, config, payload)
        else:
            run_function(trainable, config, payload["call"])
        session.barrier()
    except TrialStopped:
        if session.terminated:
            return EXIT_TERMINATED
        session.barrier()
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            session.barrier()
            return 0
        text = user_traceback(error)
        print(text, file=sys.stderr, end="", flush=True)
        session.send_error(type(error).__name__, message_of(error), text)
        session.barrier()
        return EXIT_FAILED
    return 0


def main(loaded: Optional[dict[str, Any]] = None) -> int:
    """Connects and runs. If the worker is unreachable or refuses: one line, and exit code 1."""
    try:
        session = Session(os.environ["RT_SOCKET"], os.environ.get("RT_TOKEN", ""))
    except (KeyError, ConnectionError, RuntimeError) as error:
        print(f"rt: the worker cannot be reached: {error}", file=sys.stderr)
        return EXIT_FAILED
    _session.current = session
    try:
        code = run_trial(session, loaded)
    except (ConnectionError, RuntimeError) as error:
        print(f"rt: the worker was lost: {error}", file=sys.stderr)
        code = EXIT_FAILED
    # The outcome is known: a stop that arrives while the interpreter ends must not change it. (The
    # interpreter restores SIGTERM's default; an ignored signal stays ignored.)
    _signals.set_handler(signal.SIGTERM, _signals.SIG_IGN)
    return code
