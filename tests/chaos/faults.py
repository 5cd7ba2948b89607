"""The faults by family and name. Each is a function of a Field: it injects, holds, heals, and
raises NoEffect when it met nothing that ran. docs/reliability.md has the table."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import signal
import time
from typing import Callable

from cluster import ChaosCluster
from harness import wait_until
from network import Network
from search import ChainSearch


class NoEffect(Exception):
    """The fault met nothing: the run does not count."""


@dataclasses.dataclass
class Field:
    """What a fault may use."""

    network: Network
    cluster: ChaosCluster
    search: ChainSearch
    rng: random.Random

    def trials_on(self, node: str) -> list[int]:
        """The pids of the trials that run there."""
        return [pid for pid, text in self.network.processes(node).items()
                if "chain_trial.py" in text]

    def busy_node(self) -> str:
        """A node on which a trial runs now."""
        def one() -> str:
            nodes = [node for node in self.cluster.nodes if self.trials_on(node)]
            return self.rng.choice(nodes) if nodes else ""
        try:
            return str(wait_until("a trial runs", one, 10))
        except AssertionError:
            raise NoEffect("no trial ran any more") from None

    def hold(self, least_s: float, most_s: float) -> float:
        """The fault lasts for a while, which is the fault itself and waits for nothing."""
        span = self.rng.uniform(least_s, most_s)
        time.sleep(span)
        return span

    def must(self, effect: bool, what: str) -> None:
        if not effect:
            raise NoEffect(what)


FAULTS: dict[str, tuple[str, Callable[[Field], None]]] = {}


def fault(family: str) -> Callable[[Callable[[Field], None]], Callable[[Field], None]]:
    def add(inject: Callable[[Field], None]) -> Callable[[Field], None]:
        FAULTS[inject.__name__] = (family, inject)
        return inject
    return add


def parent_of(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        raise NoEffect("it had just ended") from None


# --- P: processes ---------------------------------------------------------------------------------


@fault("P")
def kill_head(field: Field) -> None:
    field.busy_node()
    field.cluster.head.kill()
    field.hold(0, 1.5)
    field.cluster.start_head()


@fault("P")
def kill_head_three_times(field: Field) -> None:
    """The second and third while it recovers, and while workers find it again."""
    field.busy_node()
    for pause in (0.05, 0.3):
        field.cluster.head.kill()
        field.cluster.head.start()
        time.sleep(field.rng.uniform(0, pause))
    field.cluster.head.kill()
    field.cluster.start_head()


@fault("P")
def kill_worker(field: Field) -> None:
    daemon = field.cluster.daemons[field.busy_node()]
    daemon.kill()
    field.hold(0, 2.5)
    daemon.start()


@fault("P")
def kill_head_and_worker(field: Field) -> None:
    daemon = field.cluster.daemons[field.busy_node()]
    daemon.kill()
    field.cluster.head.kill()
    field.hold(0, 1)
    first, second = field.rng.choice([(daemon.start, field.cluster.start_head),
                                      (field.cluster.start_head, daemon.start)])
    first()
    second()


@fault("P")
def kill_shim(field: Field) -> None:
    node = field.busy_node()
    trials = field.trials_on(node)
    field.must(bool(trials), "the trial had just ended")
    shim = parent_of(trials[0])
    field.must(shim in field.network.processes(node), "the trial had just ended")
    kill(shim)


@fault("P")
def kill_trial(field: Field) -> None:
    trials = field.trials_on(field.busy_node())
    field.must(bool(trials), "the trial had just ended")
    kill(trials[0])


@fault("P")
def kill_node(field: Field) -> None:
    """Every process of the machine at once, and the machine is back a little later."""
    node = field.busy_node()
    field.must(field.network.kill_all(node) > 1, "only the daemon ran")
    field.cluster.daemons[node].ended()
    field.hold(0.2, 4)
    field.cluster.daemons[node].start()


def stop_for(field: Field, pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    field.hold(0.5, 3.5)
    os.kill(pid, signal.SIGCONT)


@fault("P")
def stop_head(field: Field) -> None:
    field.busy_node()
    stop_for(field, field.cluster.head.pid)


@fault("P")
def stop_worker(field: Field) -> None:
    stop_for(field, field.cluster.daemons[field.busy_node()].pid)


@fault("P")
def stop_trial(field: Field) -> None:
    trials = field.trials_on(field.busy_node())
    field.must(bool(trials), "the trial had just ended")
    try:
        stop_for(field, trials[0])
    except ProcessLookupError:
        raise NoEffect("it had just ended") from None


# --- N: the network -------------------------------------------------------------------------------


@fault("N")
def cut(field: Field) -> None:
    """The cable is out, both ways, without a word to either side."""
    node = field.busy_node()
    field.network.cable(node, False)
    field.hold(0.5, 4)
    field.network.cable(node, True)


@fault("N")
def cut_head(field: Field) -> None:
    """Every node vanishes at once."""
    field.busy_node()
    field.network.cable("head", False)
    field.hold(0.5, 4)
    field.network.cable("head", True)


@fault("N")
def flap(field: Field) -> None:
    node = field.busy_node()
    for _ in range(10):
        field.network.cable(node, False)
        field.hold(0.02, 0.2)
        field.network.cable(node, True)
        field.hold(0.02, 0.2)


def drop(field: Field, chain: str, least_s: float, most_s: float, *match: str) -> None:
    node = field.busy_node()
    field.network.rule(node, chain, *match)
    field.hold(least_s, most_s)
    dropped = field.network.dropped(node)
    field.network.heal(node)
    field.must(dropped > 0, "no packet came by")


@fault("N")
def deaf(field: Field) -> None:
    """Nothing reaches the node; what it sends arrives."""
    drop(field, "INPUT", 0.5, 4)


@fault("N")
def mute(field: Field) -> None:
    """Nothing that the node sends arrives."""
    drop(field, "OUTPUT", 0.5, 4)


def lossy(field: Field, share: str) -> None:
    drop(field, "INPUT", 3, 5, "-m", "statistic", "--mode", "random", "--probability", share)


@fault("N")
def loss_5(field: Field) -> None:
    lossy(field, "0.05")


@fault("N")
def loss_20(field: Field) -> None:
    lossy(field, "0.2")


@fault("N")
def loss_50(field: Field) -> None:
    lossy(field, "0.5")


@fault("N")
def reset(field: Field) -> None:
    """RST for every connection of the node that is behind the proxy, five times."""
    field.busy_node()
    for proxy in field.cluster.proxies.values():
        before = proxy.resets
        for _ in range(5):
            proxy.reset()
            field.hold(0.1, 0.4)
        field.must(proxy.resets > before, "there was no connection")


@fault("N")
def delay(field: Field) -> None:
    """100 to 500 ms each way, and as much jitter."""
    field.busy_node()
    for proxy in field.cluster.proxies.values():
        proxy.delay_s = field.rng.choice([0.1, 0.25, 0.5])
        proxy.jitter_s = proxy.delay_s
        field.hold(3, 5)
        proxy.delay_s = proxy.jitter_s = 0.0
