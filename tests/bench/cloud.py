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
  head: {{node_config: {{InstanceType: c4.large}}, resources: {{CPU: 1}}, max_workers: 0}}
  worker:
    node_config: {{InstanceType: c4.large}}
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


class Bench:
    def __init__(self, cloud: Cloud, home: pathlib.Path) -> None:
        self.cloud, self.home = cloud, home
        env = {key: value for key, value in os.environ.items() if not key.startswith("RT_")}
        self.env = env | cloud.environment | {"RT_HOME": f"{home}/home",
                                              "RT_RESULTS": f"{home}/results"}
        (home / "work").mkdir()

    def rt(self, *args: str) -> str:
        return subprocess.run([str(BIN / "rt"), *args], env=self.env, cwd=self.home / "work",
                              check=True, capture_output=True, text=True).stdout

    def up(self, least: int) -> None:
        (self.home / "cluster.yaml").write_text(CLUSTER.replace("@LEAST@", str(least)))
        self.rt("up", f"{self.home}/cluster.yaml")

    def submit(self, seconds: float) -> float:
        """When the head had accepted it, at the latest."""
        (self.home / "trial.yaml").write_text(TRIAL.replace("@SECONDS@", str(seconds)))
        self.rt("submit", "--detach", f"{self.home}/trial.yaml")
        return time.time()

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


def notices(bench: Bench, replaced: list[float], moved: list[float]) -> None:
    for _ in range(ROUNDS):
        wait_until("two workers", lambda: sum(
            one["state"] == "READY" for one in bench.items("node")) == 3, 120)
        before = len(bench.workers())
        bench.submit(600)
        wait_until("the trial runs", bench.place, 60)
        where = bench.place()
        number = where.removeprefix("worker-")
        instance = [one for one in bench.workers() if one["machine"] == number][0]
        begun = time.time()
        bench.cloud.booted[instance["id"]].give_notice(100)
        moved.append(bench.when("the trial runs elsewhere",
                                lambda: bench.place() not in ("", where)) - begun)
        wait_until("a replacement", lambda: len(bench.workers()) > before, 60)
        replaced.append(float(bench.workers()[before]["made_at"]) - begun)
        bench.rt("exp", "stop", "last")
        wait_until("it has left", lambda: bench.living() == 2, 120)


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
            bench.up(2)
            notices(bench, *list(figures.values())[3:])
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
