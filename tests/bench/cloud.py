"""A cluster on EC2 in a box (tests/integration/cloud_box.py: moto, and namespaces that boot): from
a trial that waits to RunInstances, from the first instruction of an instance to its READY node,
what follows a notice of interruption, and when an idle machine is gone. Setup commands and the
cloud's own part are left out: an instance begins as soon as it was asked for. Needs root and
build/venv, and runs in a process of its own, because the box has its own network."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

from rt_cluster import BIN, ROOT, note, print_bench  # First: it finds the harness.

from cloud_box import VENV, Cloud, enter_network_of_its_own
from harness import wait_until

ROUNDS = 3
IDLE_S = 3
CLUSTER = f"""
cluster_name: bench
provider: {{type: aws, region: us-west-2}}
head_node_type: head
available_node_types:
  head:
    node_config: {{InstanceType: c4.large, ImageId: @IMAGE@}}
    resources: {{CPU: 1}}
    max_workers: 0
  worker:
    node_config: {{InstanceType: c4.large, ImageId: @IMAGE@}}
    resources: {{CPU: 2}}
    min_workers: @LEAST@
    max_workers: 3
    idle_timeout_s: {IDLE_S}
"""
TRIAL = """
experiment: first
command: [sleep, "@SECONDS@"]
space: {x: 1}
resources: {cpu: 2}
"""

SEARCH = """
import os, time
from rt import tune

class Count(tune.Trainable):
    def _setup(self, config):
        self.count = 0

    def _train(self):
        time.sleep(0.05)
        self.count += 1
        return {"count": self.count}

    def _save(self, folder):
        path = os.path.join(folder, "count")
        open(path, "w").write(str(self.count))
        return path

    def _restore(self, path):
        self.count = int(open(path).read())

tune.run(Count, name="count", config={"x": 1}, resources_per_trial={"cpu": 2},
         stop={"training_iteration": 1000000})
"""


class Bench:
    def __init__(self, cloud: Cloud, home: pathlib.Path) -> None:
        self.cloud, self.home = cloud, home
        env = {key: value for key, value in os.environ.items() if not key.startswith("RT_")}
        self.env = env | cloud.environment | {"RT_HOME": f"{home}/home",
                                              "RT_RESULTS": f"{home}/results"}
        (home / "work").mkdir()

    def rt(self, *args: str) -> str:
        done = subprocess.run([str(BIN / "rt"), *args], env=self.env, cwd=self.home / "work",
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"rt {args}: {done.stderr}")
        return done.stdout

    def up(self, least: int) -> None:
        text = CLUSTER.replace("@LEAST@", str(least)).replace("@IMAGE@", self.cloud.image)
        (self.home / "cluster.yaml").write_text(text)
        self.rt("up", f"{self.home}/cluster.yaml")

    def submit(self, seconds: float) -> float:
        """When the head had accepted it, at the latest."""
        (self.home / "trial.yaml").write_text(TRIAL.replace("@SECONDS@", str(seconds)))
        self.rt("submit", "--detach", f"{self.home}/trial.yaml")
        return time.time()

    def search(self) -> None:
        """A trial that saves when it is asked to leave."""
        (self.home / "work/search.py").write_text(SEARCH)
        self.rt("submit", "--detach", "search.py")

    def items(self, noun: str) -> list[Any]:
        return list(json.loads(self.rt(noun, "list", "-o", "json"))["items"])

    def workers(self) -> list[Any]:
        return [one for one in self.cloud.instances() if one["role"] == "worker"]

    def living(self) -> int:
        return sum(1 for one in self.workers() if one["there"])

    def place(self) -> str:
        """The node of the only trial that runs."""
        nodes = {one["id"]: one["name"] for one in self.items("node")}
        running = [one for one in self.items("trial") if one["state"] == "RUNNING"]
        return str(nodes.get(running[0]["node_ids"][0], "")) if running else ""

    def has_reported(self) -> bool:
        return any(one["state"] == "RUNNING" and one["reports"] for one in self.items("trial"))

    def give_notice(self, node: str) -> None:
        self.booted(node).give_notice(100)

    def end(self, node: str) -> None:
        """What the cloud does after the notice."""
        (self.booted(node).root / "ended").touch()

    def booted(self, node: str) -> Any:
        number = node.removeprefix("worker-")
        return next(self.cloud.booted[one["id"]] for one in self.workers()
                    if one["machine"] == number)

    def when(self, what: str, condition: Callable[[], Any]) -> float:
        wait_until(what, condition, 120)
        return time.time()


def machines(bench: Bench, ordered: list[float], ready: list[float], gone: list[float]) -> None:
    for _ in range(ROUNDS):
        before = len(bench.workers())
        accepted = bench.submit(0.2)
        wait_until("RunInstances", lambda: len(bench.workers()) > before, 60)
        made = bench.workers()[before]
        ordered.append(max(0.0, float(made["made_at"]) - accepted))
        at = bench.when("READY", lambda: any(
            one["name"] != "head" and one["state"] == "READY" for one in bench.items("node")))
        wait_until("it has booted", lambda: made["id"] in bench.cloud.booted)
        ready.append(at - (bench.cloud.booted[made["id"]].root / "has-begun").stat().st_mtime)
        over = bench.when("the trial is over", lambda: all(
            one["state"] == "COMPLETED" for one in bench.items("exp")))
        gone.append(bench.when("the machine is gone", lambda: bench.living() == 0) - over - IDLE_S)


def replacement(bench: Bench, replaced: list[float]) -> None:
    """Of the only worker, whose trial must leave."""
    for _ in range(ROUNDS):
        wait_until("no worker is left", lambda: bench.living() == 0, 120)
        bench.search()
        wait_until("the trial runs", lambda: bench.place() and bench.has_reported(), 60)
        before = len(bench.workers())
        begun = time.time()
        bench.give_notice(bench.place())
        wait_until("a replacement", lambda: len(bench.workers()) > before, 60)
        replaced.append(float(bench.workers()[before]["made_at"]) - begun)
        bench.rt("exp", "stop", "last")


def move(bench: Bench, moved: list[float]) -> None:
    """To the other worker, which is idle."""
    for _ in range(ROUNDS):
        wait_until("two workers", lambda: sum(
            one["state"] == "READY" for one in bench.items("node")) == 3, 120)
        bench.search()
        wait_until("the trial runs", lambda: bench.place() and bench.has_reported(), 60)
        where = bench.place()
        begun = time.time()
        bench.give_notice(where)
        moved.append(bench.when("the trial runs elsewhere",
                                lambda: bench.place() not in ("", where)) - begun)
        bench.rt("exp", "stop", "last")
        bench.end(where)


def main() -> None:
    if not VENV.exists() or not enter_network_of_its_own():
        print("# cloud: left out: it needs root, and build/venv of the tests")
        return
    figures: dict[str, list[float]] = {name: [] for name in (
        "cloud_run_instances", "cloud_boot_to_ready", "cloud_idle_gone_late",
        "cloud_notice_to_replacement", "cloud_notice_to_running")}
    cloud = Cloud()
    try:
        with tempfile.TemporaryDirectory(prefix="rt-bench-cloud-") as folder:
            bench = Bench(cloud, pathlib.Path(folder))
            bench.up(0)
            machines(bench, *list(figures.values())[:3])
            replacement(bench, figures["cloud_notice_to_replacement"])
            wait_until("no worker is left", lambda: bench.living() == 0, 120)
            bench.up(2)
            move(bench, figures["cloud_notice_to_running"])
            bench.rt("down", "bench", "--no-download")
    except BaseException:
        print(cloud.logs(), file=sys.stderr)
        raise
    finally:
        cloud.close()
    for (name, took), bar in zip(figures.items(), ("<=1", "<=4", "<=5", "<=0.5", "<=1.5")):
        print_bench(name, statistics.median(took), "s", bar, "none")
        note(f"median of {ROUNDS}: " + " ".join(f"{value:.2f}" for value in took))


def cloud(_with_peers: bool) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, str(ROOT / "tests/bench/cloud.py")], check=True)


if __name__ == "__main__":
    main()
