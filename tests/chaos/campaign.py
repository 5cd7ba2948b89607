"""Runs of one small search each, with faults by family and name from a seed; `run` starts this
inside namespaces of its own. A run counts only if a fault took effect while trials ran."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import pathlib
import random
import signal
import statistics
import sys
import time
import traceback
from typing import Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import ChaosCluster  # noqa: E402
from faults import Field, NoEffect  # noqa: E402
from harness import wait_until  # noqa: E402
from network import Network  # noqa: E402
from notice_faults import FAULTS  # noqa: E402
from search import ChainSearch, check_clean, check_replay, stop_everything  # noqa: E402

NODES = ["n1", "n2", "n3"]
PROXIED = ["n1"]
TRIALS, STEPS, PAUSE_S, CHECKPOINT_EVERY = 5, 40, 0.06, 8
# Three times what a run takes without faults on a slow machine, and 30 s: reference section 1.3.
DEADLINE_S = 3 * 15 + 30


@dataclasses.dataclass
class Tally:
    injected: int = 0
    without_effect: int = 0
    violations: int = 0
    lost_s: list[float] = dataclasses.field(default_factory=list)


class Campaign:
    def __init__(self, seed: int, chosen: list[str], durable_after: list[str]) -> None:
        self.seed, self.chosen, self.durable_after = seed, chosen, durable_after
        self.network = Network(NODES)
        self.tallies: dict[str, Tally] = collections.defaultdict(Tally)
        self.runs = self.counted = 0
        self.violated: list[str] = []

    def plan(self, index: int, names: Optional[list[str]]) -> list[str]:
        """The faults of the run: those given, or one to three by the run's seed."""
        rng = random.Random(f"plan {self.seed + index}")
        return names or rng.choices(self.chosen, k=rng.choice([1, 1, 2, 3]))

    def run(self, index: int, names: Optional[list[str]]) -> None:
        names = self.plan(index, names)
        seed = self.seed + index
        begin = time.monotonic()
        self.runs += 1
        where = random.Random(f"where {seed}").choice(self.durable_after)
        cluster = ChaosCluster(self.network, proxied=PROXIED)
        field = Field(self.network, cluster, ChainSearch(
            cluster, "chaos", trials=TRIALS, steps=STEPS, pause_s=PAUSE_S,
            checkpoint_every=CHECKPOINT_EVERY, seed=seed,
            more=f"checkpoints: {{durable_after: {where}}}\n"), random.Random(f"run {seed}"))
        done: list[str] = []
        said = "ok"
        try:
            lost = self._play(field, names, done)
            said += f", {sum(lost):.1f} trial-seconds lost"
        except Exception as error:
            said = "VIOLATED"
            self.violated.append(f"seed {seed}, {where}, {' '.join(names)}: {error}")
            for name in names:
                self.tallies[name].violations += 1
            traceback.print_exc()
            print(cluster.logs(), flush=True)
        finally:
            cluster.close()
        self.counted += bool(done)
        print(f"run {index + 1} seed {seed}, {where}: {' '.join(names)}: {said}, "
              f"{time.monotonic() - begin:.1f} s", flush=True)

    def _play(self, field: Field, names: list[str], done: list[str]) -> list[float]:
        """Trial-seconds lost by each fault that took effect; raises what was violated."""
        field.cluster.up()
        field.search.submit()
        wait_until("the first checkpoints are there",
                   lambda: field.search.committed_count() >= len(NODES), 60)
        since: list[float] = []
        for name in names:
            at = time.time()
            try:
                FAULTS[name][1](field)
            except NoEffect as error:
                self.tallies[name].without_effect += 1
                print(f"  {name} had no effect: {error}", flush=True)
                continue
            done.append(name)
            since.append(at)
            self.tallies[name].injected += 1
        field.search.check(restarted=None, deadline_s=DEADLINE_S)
        field.search.check_chain()
        check_clean(field.cluster, self.network)
        check_replay(field.cluster, field.search)
        lost = field.search.lost(since)
        for name, seconds in zip(done, lost):
            self.tallies[name].lost_s.append(seconds)
        stop_everything(field.cluster, self.network)
        return lost

    def table(self) -> str:
        lines = ["| family | fault | injected | without effect | runs violated | trial-seconds "
                 "lost, median (most) |", "|---|---|---|---|---|---|"]
        for name, (family, _) in FAULTS.items():
            if name not in self.tallies:
                continue
            tally = self.tallies[name]
            lost = f"{statistics.median(tally.lost_s):.2f} ({max(tally.lost_s):.2f})" \
                if tally.lost_s else "-"
            lines.append(f"| {family} | {name} | {tally.injected} | {tally.without_effect} | "
                         f"{tally.violations} | {lost} |")
        injected = sum(tally.injected for tally in self.tallies.values())
        lines.append(f"\n{self.runs} runs from seed {self.seed}, {self.counted} counted, "
                     f"{injected} faults, {len(self.violated)} runs violated")
        return "\n".join(lines)


def choose(text: str) -> list[str]:
    """Names of faults; a family's letter stands for all of its own."""
    chosen = []
    for word in text.split(",") if text else list(FAULTS):
        found = [name for name, (family, _) in FAULTS.items() if word in (name, family)]
        if not found:
            raise SystemExit(f"chaos: no fault or family '{word}'; there are: {' '.join(FAULTS)}")
        chosen += found
    return chosen


def by_turns(names: list[str]) -> list[str]:
    """The first of each family, then the second of each: a campaign that is cut short met all."""
    seen: collections.Counter[str] = collections.Counter()
    rank = {}
    for name in names:
        family = FAULTS[name][0]
        rank[name] = (seen[family], family)
        seen[family] += 1
    return sorted(names, key=lambda name: rank[name])


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that clusters are taken down.
    parser = argparse.ArgumentParser(prog="tests/chaos/run")
    parser.add_argument("--runs", type=int, default=0, help="default: every chosen fault once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="", help="names or families, by commas; default: all")
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no run after this")
    parser.add_argument("--durable-after", default="store",
                        help="store or peer; by commas: one of them by each run's seed")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{family} {name}" for name, (family, _) in FAULTS.items()))
        return 0
    chosen = by_turns(choose(args.faults))
    campaign = Campaign(args.seed, chosen, args.durable_after.split(","))
    end = time.monotonic() + args.seconds
    for index in range(args.runs or len(chosen)):
        if time.monotonic() > end:
            break
        campaign.run(index, None if args.runs else [chosen[index]])
    print(f"\n{campaign.table()}")
    for line in campaign.violated:
        print(f"violated: {line}")
    return 1 if campaign.violated or campaign.counted == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
