"""What population based training costs: `exploit` and `verdict`.

    exploit_same_node, exploit_other_node   from the report of a bad trial to its first step with a
                                            checkpoint of 64 MB of another trial, which ran on the
                                            same node or on another one; medians of ROUNDS
    exploit_stored                          new bytes in the store meanwhile
    verdict_p50, verdict_p99                how long report() waits at a milestone for the verdict

The trials are Python functions that a fork server starts. Nodes are daemons on one machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time

from checkpoints import stored
from rt_cluster import BenchCluster, interpreter, note, print_bench, python_env

ROUNDS = 5
STATE_BYTES = 64_000_000
VERDICTS = 400

# Trial 0 saves and waits. Trial 1 is worse, and continues from trial 0's checkpoint.
EXPLOIT = f"""
import os, sys, time
from rt import tune
from rt.tune.schedulers import PopulationBasedTraining

def train(config):
    restored = tune.get_checkpoint()
    if restored:
        with restored.as_directory() as folder, open(os.path.join(folder, "state"), "rb") as file:
            assert len(file.read()) == {STATE_BYTES}
        tune.report({{"score": 2.0, "at": time.time(), "step": 2}})
        open(config["done"], "w").close()
        return
    if config["number"] == 0:
        with tune.checkpoint_dir(step=1) as folder:
            with open(os.path.join(folder, "state"), "wb") as file:
                file.write(os.urandom({STATE_BYTES}))
        tune.report({{"score": 1.0, "at": time.time(), "step": 1}})
        waits_for = config["done"]
    else:
        waits_for = config["go"]
    while not os.path.exists(waits_for):
        time.sleep(0.002)
    if config["number"] == 1:
        tune.report({{"score": 0.0, "at": time.time(), "step": 1}})

go, done, name = sys.argv[1:]
tune.Tuner(
    tune.with_resources(train, {{"cpu": 1}}),
    param_space={{"number": tune.grid_search([0, 1]), "lr": 0.1, "go": go, "done": done}},
    tune_config=tune.TuneConfig(
        metric="score", mode="max",
        scheduler=PopulationBasedTraining(
            time_attr="step", perturbation_interval=1, quantile_fraction=0.5,
            hyperparam_mutations={{"lr": tune.uniform(0, 1)}})),
    run_config=tune.RunConfig(name=name, verbose=0)).fit()
"""

VERDICT = f"""
import time
from rt import tune
from rt.tune.schedulers import PopulationBasedTraining

def train(config):
    took = 0.0
    for _ in range({VERDICTS}):
        began = time.perf_counter()
        tune.report({{"took_ms": took, "score": 1.0}})
        took = (time.perf_counter() - began) * 1e3

tune.Tuner(train, param_space={{"lr": 0.1}}, tune_config=tune.TuneConfig(
    metric="score", mode="max", scheduler=PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=1,
        hyperparam_mutations={{"lr": tune.uniform(0, 1)}})),
    run_config=tune.RunConfig(name="verdict", verbose=0)).fit()
"""


def exploit(with_peers: bool) -> None:
    """One clone after the other, on one node and between two."""
    del with_peers
    grown = 0
    for where, workers, cpus, limit in (("same", 1, 2, 300), ("other", 2, 1, 1000)):
        took = []
        with BenchCluster(workers=workers, cpus=cpus) as cluster:
            (cluster.work / "exploit.py").write_text(EXPLOIT)
            for number in range(1, ROUNDS + 1):
                seconds, more = one_clone(cluster, number)
                took.append(seconds)
                grown += more
        print_bench(f"exploit_{where}_node", statistics.median(took) * 1e3, "ms", f"<={limit}",
                    "Ray: the whole checkpoint through shared storage")
        note(f"exploit, {where} node: {' '.join(f'{each * 1e3:.0f}' for each in took)} ms")
    print_bench("exploit_stored", grown, "bytes", "<=0", "Ray copies the checkpoint")


def one_clone(cluster: BenchCluster, number: int) -> tuple[float, int]:
    """(seconds from the report to the first new step, bytes that the store grew by)."""
    go, done = cluster.home / f"go-{number}", cluster.home / f"done-{number}"
    driver = start(cluster, "exploit.py", str(go), str(done), f"exploit-{number}")
    try:
        wait_for_checkpoint(cluster, number)
        before = stored(cluster)
        go.touch()
        assert driver.wait(timeout=120) == 0
        more = stored(cluster) - before
    finally:
        driver.kill()
    trial = cluster.trials(number)[1]
    rows = cluster.rows(cluster.experiment(number), trial)
    return rows[1]["at"] - rows[0]["at"], more


def wait_for_checkpoint(cluster: BenchCluster, number: int) -> None:
    """Until trial 0 of the experiment has a checkpoint in the store, and trial 1 runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        items = cluster.json("exp", "list")["items"]
        trials = cluster.trials(number) if any(one["id"] == number for one in items) else []
        if len(trials) == 2 and trials[1]["state"] == "RUNNING":
            if cluster.json("trial", "show", f"{number}/0")["checkpoints"]:
                return
        time.sleep(0.05)
    raise SystemExit(f"no checkpoint within 60 s\n{cluster.logs()}")


def verdict(with_peers: bool) -> None:
    """Reports of one trial, each of which waits."""
    del with_peers
    with BenchCluster(workers=1, cpus=1) as cluster:
        (cluster.work / "verdict.py").write_text(VERDICT)
        driver = start(cluster, "verdict.py")
        try:
            assert driver.wait(timeout=120) == 0
        finally:
            driver.kill()
        rows = cluster.rows(cluster.experiment(1), cluster.trials(1)[0])
    took = sorted(row["took_ms"] for row in rows[1:])
    print_bench("verdict_p50", took[len(took) // 2], "ms", "<=5", "Ray: a step of its controller")
    print_bench("verdict_p99", took[len(took) * 99 // 100], "ms", "<=20", "no bound")


def start(cluster: BenchCluster, script: str, *arguments: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, **cluster.env, **python_env(), "RT_CLUSTER": "it"}
    return subprocess.Popen([interpreter(), script, *arguments], env=env, cwd=cluster.work,
                            stdin=subprocess.DEVNULL)
