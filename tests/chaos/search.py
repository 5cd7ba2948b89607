"""The search that the faults meet, and everything that must be true of it afterwards."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import signal
from typing import Any

import chain
from checks import Search, Story, bare_python
from cluster import ChaosCluster
from harness import state_hash, wait_until
from network import Network

HERE = pathlib.Path(__file__).resolve().parent
# Of what the head says, what names a moment instead of a fact.
VOLATILE = {"elapsed_s", "age_s", "running_s", "waiting", "waits_for", "why", "now"}


@dataclasses.dataclass
class ChainSearch(Search):
    seed: int = 1
    checkpoint_bytes: int = 256 << 10
    more: str = ""  # Lines of the experiment's YAML.
    gated: bool = False  # Trials wait after their first checkpoint for open_gate().
    # (k, attempt, step) of checkpoints that a fault has spoilt: those up to that attempt.
    broken: set[tuple[int, int, int]] = dataclasses.field(default_factory=set)

    @property
    def gate(self) -> pathlib.Path:
        return self.notes.with_suffix(".gate")

    def open_gate(self) -> None:
        self.gate.touch()

    def command(self) -> list[str]:
        return [*bare_python(), str(HERE / "chain_trial.py"), str(self.notes),
                str(self.steps), str(self.pause_s), str(self.checkpoint_every),
                str(self.checkpoint_bytes), str(self.seed),
                *([str(self.gate)] if self.gated else [])]

    def prepare(self) -> None:
        self.notes.mkdir()
        self.options = "metric: loss\nmode: min\nmax_failures: 50\n" + self.more

    def stories(self, trial: dict[str, Any]) -> list[Story]:
        """Nobody has to begin at a checkpoint that is spoilt."""
        k = int(trial["id"].split("/")[1])
        found: list[Story] = super().stories(trial)
        for story in found:
            story.committed = [step for step in story.committed if not any(
                (k, step) == (one, at) and story.attempt <= attempt
                for one, attempt, at in self.broken)]
        return found

    def has_committed(self, trial: str) -> bool:
        """Whether any attempt of the trial was told of a commit."""
        name = trial.replace("/", "_")
        return any('"committed"' in path.read_text() for path in self.notes.glob(f"{name}.*"))

    def committed_count(self) -> int:
        return sum(text.count('"committed"') for text in
                   (path.read_text() for path in self.notes.glob("*")))

    def has_ended(self) -> bool:
        """Whether each trial has noted its end."""
        return len({path.stem for path in self.notes.glob("*") if '"end"' in path.read_text()}
                   ) == self.trials

    def check_chain(self) -> None:
        """Each reported state is the one that its step has in an undisturbed run."""
        rows = self.cluster.bridge([{"op": "trial_rows", "trial_id": f"{self.number}/{n}"}
                                    for n in range(self.trials)])
        for number, answer in enumerate(rows):
            for row in answer["rows"]:
                state = chain.states(self.seed, row["k"], self.steps)[row["i"]]
                assert row["state"] == state and row["loss"] == chain.loss_of(state), \
                    f"trial {number}: another state at step {row['i']}"
            assert len(answer["rows"]) == self.steps, f"trial {number}: {len(answer['rows'])} rows"

    def check_outputs(self, deadline_s: float) -> None:
        """What each trial wrote in its working directory at its end comes home."""
        pending = [f"{self.number}/{n}" for n in range(self.trials)]

        def kept() -> bool:
            while pending and not self.cluster.trial(pending[-1])["outputs_pending"]:
                pending.pop()
            return not pending
        wait_until("all outputs are kept", kept, deadline_s)
        home = self.notes.parent / f"home-{self.number}"
        self.cluster.rt("exp", "download", str(self.number), str(home))
        for number, trial in enumerate(self.cluster.trials(self.number)):
            last = chain.states(self.seed, trial["params"]["k"], self.steps)[self.steps]
            written = home / trial["name"] / "outputs/work/written"
            assert written.exists(), f"no outputs: {self.cluster.trial(trial['id'])}"
            assert written.read_text() == last, f"trial {number} wrote something else"

    def lost(self, since: list[float]) -> list[float]:
        """Per fault (the times of injection, ascending): trial-seconds until each trial it hit
        was as far as it had been, counted for the newest fault before the trial went on."""
        seconds = [0.0] * len(since)
        attempts: dict[str, list[tuple[int, list[dict[str, Any]]]]] = {}
        for path in self.notes.glob("*"):
            notes = [json.loads(line) for line in path.read_text().splitlines(keepends=True)
                     if line.endswith("\n")]
            if notes:
                attempts.setdefault(path.stem, []).append((int(path.suffix[1:]), notes))
        for stories in attempts.values():
            stories.sort(key=lambda one: one[0])
            for (_, before), (_, after) in zip(stories, stories[1:]):
                start = after[0]["start"]
                kept = [note["t"] for note in before
                        if next(iter(note.values())) <= start] or [before[0]["t"]]
                fault = max((i for i, t in enumerate(since) if t <= after[0]["t"]), default=None)
                if fault is not None:
                    seconds[fault] += max(0.0, after[0]["t"] - kept[-1])
        return seconds


def stable(value: Any) -> Any:
    """Without what changes while nothing happens."""
    if isinstance(value, dict):
        return {key: stable(one) for key, one in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [stable(one) for one in value]
    return value


def check_replay(cluster: ChaosCluster, search: ChainSearch) -> None:
    """kill -9 of the head: what it says afterwards is what it said before."""
    before = stable(cluster.dump(search.number, search.trials))
    cluster.head.kill()
    cluster.start_head()
    cluster.wait_ready()
    after = stable(cluster.dump(search.number, search.trials))
    assert after == before, f"after a replay: {difference(before, after)}"


def difference(before: Any, after: Any, path: str = "") -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                return difference(before.get(key), after.get(key), f"{path}/{key}")
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after)):
            if one != other:
                return difference(one, other, f"{path}/{index}")
    return f"{path}: {before!r} was {after!r}"


def check_clean(cluster: ChaosCluster, network: Network) -> None:
    """Nothing of any attempt is left: processes, run directories, control groups."""
    def leftovers() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for node in cluster.nodes:
            strays = {pid: text for pid, text in network.processes(node).items()
                      if pid != cluster.daemons[node].pid and "--nursery" not in text}
            kept = [str(path) for path in (cluster.home / node / "attempts").glob("*")]
            found.update({f"{node}'s processes": strays} if strays else {})
            found.update({f"{node}'s run directories": kept} if kept else {})
        return found
    try:
        wait_until("nothing is left of the trials", lambda: not leftovers(), 20, lasting=True)
    except AssertionError:
        raise AssertionError(f"left behind: {leftovers()}") from None


def stop_everything(cluster: ChaosCluster, network: Network) -> None:
    """SIGTERM ends every daemon with 0, and nothing is left in its namespace."""
    for name in reversed(network.nodes):
        daemon = cluster.daemons[name]
        daemon.signal(signal.SIGTERM)
        assert daemon.process is not None
        status = daemon.process.wait(timeout=30)
        assert status == 0, f"{name} ended with {status}"
        wait_until(f"nothing is left on {name}", lambda: not network.processes(name), 20,
                   lasting=True)
    kept = [str(path) for path in cluster.sockets() if path.exists()]
    groups = {f"rt-{state_hash(cluster.home / node)}" for node in cluster.nodes}
    kept += [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob("**/rt-*")
             if path.name in groups]
    assert not kept, f"left behind: {kept}"
    for name, daemon in cluster.daemons.items():
        text = (daemon.folder / "log").read_text(errors="replace")
        assert "check failed" not in text.lower(), f"{name}: {text[-2000:]}"
