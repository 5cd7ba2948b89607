"""Puts a crash at every failpoint that the daemons have (common/run/failpoint.h): a head and two
workers run a search of the hash-chain trainer, the daemon that has the point is ended and started
again with the point armed, and again without it once it died there. The search must end with the
chain of an undisturbed run, and nothing that was acknowledged may be lost. A point that is never
reached is a failure: it would prove nothing. Points that need the same daemons are played one after
another in one cluster, each with a search of its own; a new cluster follows a failure.

    failpoints.py                              every point once, with kill
    failpoints.py --all                        with kill, kill:300, stop:1000 and error
    failpoints.py --points NAME,PREFIX,…       only these; --list shows all
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback
from typing import Any, Callable, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from harness import BIN, wait_until  # noqa: E402
from plain_cluster import PlainCluster  # noqa: E402
from search import ChainSearch  # noqa: E402

# Points of clusters by demand: tests/integration/test_demand.py reaches each of them.
ELSEWHERE = ("head.provider.",)
ALL = ["kill", "kill:300", "stop:1000", "error"]
Played = tuple[str, str]  # A point and an action.
FIRE_S, END_S = 40.0, 90.0  # On a machine that does other things as well.
SHIPPED = {"journal": {"ship": {"to": "@HOME@/shipped", "mode": "sync"},
                       "key_file": "@HOME@/key", "snapshot_every": 20}}
FILES_SWEPT = {"checkpoint_store": {"keep_garbage": "1s"}}
OBJECTS_SWEPT = {"checkpoint_store": {"url": "@HOME@/objects", "keep_garbage": "1s"}}


class Run:
    """One point with one action, played in a cluster that is up and where nothing runs."""

    def __init__(self, cluster: PlainCluster, point: str, action: str, turn: int) -> None:
        self.cluster, self.point, self.action = cluster, point, action
        self.case = case_of(point)
        self.verb = action.split(":")[0]
        # No two searches of a cluster have the same checkpoints: the store has each chunk once.
        self.search = ChainSearch(cluster, f"points{turn}", seed=turn, **{
            "trials": 3, "steps": 12, "pause_s": 0.05, "checkpoint_every": 3, "gated": True,
            **self.case.search})
        self.armed = "head" if point.startswith("head.") else "n1"
        self.armed_at = 0  # Bytes of the armed daemon's log.
        self.deaths = 0

    def play(self) -> None:
        """Raises what did not hold."""
        self.search.submit()
        wait_until("a checkpoint is there", lambda: self.search.committed_count() > 0, END_S)
        if self.case.choose:
            self.armed = self.case.choose(self)
        daemon = self.cluster.daemons[self.armed]
        daemon.end()
        self.armed_at = daemon.logged_bytes()
        daemon.start(failpoints=f"{self.point}={self.action}@{self.case.at}")
        self.wait_until(f"{self.armed} does not serve", self.serves_or_fired, FIRE_S)
        if not self.case.at_gate:
            self.search.open_gate()  # So most of the search is still to come.
        if self.case.provoke:
            self.case.provoke(self)
        self.wait_until(f"{self.point} was never reached", self.has_fired, FIRE_S)
        self.search.open_gate()
        for stopped in self.case.stopped:
            os.kill(self.cluster.daemons[stopped].pid, signal.SIGCONT)
        self.wait_until("the search does not end", self.search.has_ended, END_S)
        self.search.check(restarted=self.may_restart(), deadline_s=END_S)
        self.search.check_chain()
        # Nobody waits for outputs on a node that is lost, as one is whose daemon is away for long.
        wait_until("both nodes are there", self.cluster.has_all_nodes, END_S, lasting=True)
        self.search.check_outputs(END_S)
        wait_until("no run directory is left", lambda: not self.cluster.run_directories(), END_S)
        self.look_after()

    def wait_until(self, otherwise: str, condition: Callable[[], Any], deadline_s: float) -> None:
        end = time.monotonic() + deadline_s

        def look() -> bool:
            self.look_after()
            assert time.monotonic() < end, otherwise
            return bool(condition())
        wait_until(otherwise, look, deadline_s + 1)

    def look_after(self) -> None:
        """Starts what the point has ended again, once; nothing else may end."""
        for name, daemon in self.cluster.daemons.items():
            status = daemon.ended()
            if status is None:
                continue
            expected = {"kill": -signal.SIGKILL, "error": 1}.get(self.verb)
            assert name == self.armed and status == expected and self.deaths == 0, \
                f"{name} ended with {status}"
            assert self.has_fired(), f"{name} ended with {status}, and the point did not fire"
            self.deaths += 1
            daemon.start()

    def serves_or_fired(self) -> bool:
        log = self.log().rpartition("failpoints are armed")[2]
        return "serving at" in log or " serves " in log or self.has_fired()

    def has_fired(self) -> bool:
        if f"failpoint {self.point} fires" not in self.log():
            return False
        ended = self.cluster.daemons[self.armed].ended() is not None
        return self.verb != "kill" or self.deaths > 0 or ended

    def log(self) -> str:
        """What the daemon with the point has written since it was armed."""
        return self.cluster.daemons[self.armed].log(self.armed_at)

    def may_restart(self) -> Optional[tuple[()]]:
        """Nobody (): a head that dies and is back loses no trial, or it had told of something that
        it did not have. None: whoever."""
        return () if self.armed == "head" and self.verb == "kill" else None


@dataclasses.dataclass
class Case:
    """How a point is reached."""

    at: int = 1  # The time at which it fires, counted from the armed daemon's start.
    also: tuple[str, ...] = ()  # More actions than kill, whenever all points are played.
    config: dict[str, Any] = dataclasses.field(default_factory=dict)  # The head's.
    flags: tuple[str, ...] = ()  # The workers'.
    search: dict[str, Any] = dataclasses.field(default_factory=dict)
    choose: Optional[Callable[[Run], str]] = None  # The daemon, when it is not n1.
    provoke: Optional[Callable[[Run], None]] = None  # Once it is armed.
    at_gate: bool = False  # Trials stand at their gate until it has fired: none ends by itself.
    alone: bool = False  # What it does to the nodes leaves nothing for another point.
    stopped: tuple[str, ...] = ()  # Who stands still (provoke saw to it) until it has fired.


def kill_trial(run: Run) -> None:
    """The one of n1 begins again at its checkpoint, there: n2 has one of its own."""
    def found() -> list[int]:
        return [pid for pid, trial in run.cluster.trial_pids("n1").items()
                if run.search.has_committed(trial)]
    for pid in wait_until("n1 has a trial with a checkpoint", found):
        os.kill(pid, signal.SIGKILL)


def lose_node(run: Run) -> None:
    """What runs on n1 is given up, and is to end when n1 is back."""
    daemon = run.cluster.daemons["n1"]
    wait_until("n1 is back", lambda: run.cluster.node("n1")["pid"] == daemon.pid, lasting=True)
    # One whose checkpoint is refused then would end by itself.
    wait_until("its trial is at the gate", lambda: any(
        map(run.search.has_committed, run.cluster.trial_pids("n1").values())), lasting=True)
    os.kill(daemon.pid, signal.SIGSTOP)
    wait_until("n1 is lost", lambda: run.cluster.node("n1")["state"] == "LOST", lasting=True)
    os.kill(daemon.pid, signal.SIGCONT)


def stop_head(run: Run) -> None:
    os.kill(run.cluster.daemons["head"].pid, signal.SIGSTOP)


def node_of_trial(run: Run) -> str:
    def found() -> str:
        return next((node for node in ("n1", "n2") if run.cluster.trial_pids(node)), "")
    return str(wait_until("the trial runs", found))


def move_trial(run: Run) -> None:
    """The only trial leaves its node, which still has its checkpoint, and has told the head so: one
    that it committed since it was armed."""
    before = run.search.committed_count()
    wait_until("another checkpoint", lambda: run.search.committed_count() > before)
    run.cluster.rt("node", "drain", str(run.cluster.node(run.armed)["id"]))
    for pid in run.cluster.trial_pids(run.armed):
        os.kill(pid, signal.SIGKILL)


def freeze_trials(run: Run) -> None:
    """All trials are frozen where they are; then all continue."""
    number = str(run.search.number)
    run.cluster.rt("exp", "pause", number)

    def rests() -> bool:
        run.look_after()
        trials = run.cluster.trials(run.search.number)
        return all(trial["state"] not in ("STARTING", "RUNNING") for trial in trials)
    wait_until("no trial runs", rests, END_S, lasting=True)
    run.cluster.rt("exp", "resume", number)


FROZEN = Case(search={"trials": 2, "steps": 40, "checkpoint_every": 10,
                      "more": "suspend: true\n"}, provoke=freeze_trials)
RESTORED = Case(flags=("--keep-checkpoints", "0"), provoke=kill_trial,
                search={"trials": 2, "steps": 36, "checkpoint_every": 6})
# n1 is given one more trial, whichever node is the first to have a place for one.
ANOTHER = Case(search={"trials": 4})
HELD = Case(search={"more": "checkpoints: {durable_after: local}\n"})
SERVED = Case(search={"trials": 1, "steps": 100, "checkpoint_every": 20,
                      "checkpoint_bytes": 9 << 20},
              choose=node_of_trial, provoke=move_trial, alone=True)
# So that checkpoints are retired, and swept.
SWEPT = {"trials": 2, "steps": 60, "checkpoint_every": 5, "more": "checkpoints: {num_to_keep: 1}\n"}

# By the longest prefix; most points are reached by any search.
CASES: dict[str, Case] = {
    "": Case(),
    "head.loop": Case(at=8),
    "head.journal": Case(at=5, also=("kill:300",)),  # The others go on while it stands still.
    "head.snapshot": Case(config=SHIPPED),
    "head.ship": Case(at=5, config=SHIPPED),
    "head.ship.before_fence": Case(config=SHIPPED),
    "head.ship.after_fence": Case(config=SHIPPED),
    "head.ship.before_snapshot": Case(config=SHIPPED),
    "head.sinks": Case(at=2),
    "head.store": Case(at=2),
    "head.sweep": Case(config=OBJECTS_SWEPT, search=SWEPT),
    "head.sweep.before_unlink": Case(config=FILES_SWEPT, search=SWEPT),
    "worker.sync": Case(at=3),
    "worker.checkpoint.before_hold": HELD,
    "worker.checkpoint.after_hold": HELD,
    "worker.held": HELD,
    "worker.spool": Case(at=4),
    "worker.report": Case(at=3),
    "worker.prepare": ANOTHER,
    "worker.launch": ANOTHER,
    "worker.restore": RESTORED,
    "worker.peer": SERVED,
    "worker.output": Case(search={"more": "report_regex: '(none)=([0-9]+)'\n"}),
    "worker.signal": Case(search={"trials": 2}, provoke=lose_node, at_gate=True, alone=True),
    "worker.freeze": FROZEN,
    "worker.thaw": FROZEN,
    "worker.fence": Case(flags=("--disconnect-stop", "1s"), search={"trials": 2}, at_gate=True,
                         provoke=stop_head, stopped=("head",), alone=True),
}


def case_of(point: str) -> Case:
    return CASES[max((prefix for prefix in CASES if point.startswith(prefix)), key=len)]


def listed() -> list[tuple[str, list[str]]]:
    """Every point of both daemons that is played here, with what can be done there."""
    points = []
    for program in ("rt-head", "rt-worker"):
        text = subprocess.run([str(BIN / program), "--failpoints"], text=True, check=True,
                              capture_output=True).stdout
        points += [(line.split()[0], line.split()[1:]) for line in text.splitlines()
                   if not line.startswith(ELSEWHERE)]
    return points


def groups(chosen: list[Played], jobs: int) -> list[list[Played]]:
    """Those of a group can share a cluster. Groups are long: each starts daemons of its own."""
    alike: dict[str, list[Played]] = {}
    for point, action in chosen:
        case = case_of(point)
        key = json.dumps([case.config, case.flags, (point, action) if case.alone else None])
        alike.setdefault(key, []).append((point, action))
    most = max(4, len(chosen) // jobs)
    parts = [group[at:at + most] for group in alike.values() for at in range(0, len(group), most)]
    # The slowest groups start first, so that they do not run alone at the end.
    return sorted(parts, key=lambda part: (not case_of(part[0][0]).alone, -len(part)))


def play(group: list[Played]) -> list[str]:
    """What did not hold."""
    problems = []
    while group:
        passed, problem = play_until_failure(group)
        problems += [problem] if problem else []
        group = group[passed + bool(problem):]
    return problems


def play_until_failure(group: list[Played]) -> tuple[int, Optional[str]]:
    """How many were played well, in one cluster, and what did not hold of the one after them."""
    case = case_of(group[0][0])
    cluster = PlainCluster(case.config, case.flags)
    passed, name = 0, ""
    try:
        cluster.up()
        wait_until("both nodes are there", cluster.has_all_nodes, END_S, lasting=True)
        for point, action in group:
            begin, name = time.monotonic(), f"{point}={action}"
            Run(cluster, point, action, turn=passed + 1).play()
            print(f"ok     {name} {time.monotonic() - begin:.1f} s", flush=True)
            passed += 1
        name = "the end after " + ", ".join("=".join(one) for one in group)
        cluster.end()
        return passed, None
    except Exception as error:
        traceback.print_exc()
        before = f" (after {group[passed - 1][0]})" if 0 < passed < len(group) else ""
        said = str(error).splitlines()[0] if str(error) else repr(error)
        print(f"FAILED {name}{before}\n{cluster.logs()}", flush=True)
        return passed, f"{name}{before}: {said}"
    finally:
        cluster.close()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that clusters are taken down.
    parser = argparse.ArgumentParser(prog="tests/chaos/failpoints.py")
    parser.add_argument("--points", default="", help="names or beginnings, by commas")
    parser.add_argument("--all", action="store_true", help="also kill:300, stop:1000 and error")
    parser.add_argument("--actions", default="", help="by commas; default: kill, and what matters")
    parser.add_argument("--jobs", type=int, default=4, help="clusters at once")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    points = listed()
    if args.list:
        print("\n".join(f"{point} {' '.join(actions)}" for point, actions in points))
        return 0
    said = ALL if args.all else [one for one in args.actions.split(",") if one]
    prefixes = tuple(args.points.split(","))
    chosen = [(point, action) for point, can in points if point.startswith(prefixes)
              for action in said or ["kill", *case_of(point).also]
              if action.split(":")[0] in can]
    assert chosen, f"no point begins with {args.points}"
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        problems = [one for each in pool.map(play, groups(chosen, args.jobs)) for one in each]
    for problem in problems:
        print(f"violated: {problem}")
    print(f"{len(chosen)} runs, {len(problems)} violated")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
