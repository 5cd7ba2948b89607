"""Reports per second that are committed: C++ on the trial socket, and Python's tune.report."""

from __future__ import annotations

import datetime
import os
import pathlib

import peers
from rt_cluster import (
    BIN, BenchCluster, cpu_note, interpreter, note, print_bench, python_env,
)

TRIALS = 8
REPORTS = 25_000  # Of each trial.
PYTHON_REPORTS = 5_000

PYTHON_DRIVER = """
import pathlib, sys, time
from rt import tune

def objective(config):
    folder = pathlib.Path({folder!r})
    (folder / f"ready-{{config['i']}}").touch()
    while len(list(folder.glob("ready-*"))) < {trials}:
        time.sleep(0.001)
    (folder / f"start-{{config['i']}}").write_text(str(time.time()))
    for step in range({reports}):
        tune.report({{"loss": 1.0 / (step + 1), "accuracy": 0.5, "epoch": step}})

tune.Tuner(objective, param_space={{"i": tune.grid_search(list(range({trials})))}},
           tune_config=tune.TuneConfig(metric="loss", mode="min"),
           run_config=tune.RunConfig(verbose=0)).fit()
"""


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def from_cpp(cluster: BenchCluster, with_peers: bool) -> None:
    folder = cluster.home / "cpp"
    folder.mkdir()
    before, journal = cluster.cpu_s(), cluster.journal()
    experiment = cluster.run_experiment("cpp", (
        f"experiment: cpp\ncommand: ['{BIN}/bench_report_trial', '{folder}', '{TRIALS}',"
        f" '{REPORTS}']\nnum_samples: {TRIALS}\nmetric: loss\nmode: min\n"))
    after, journal_after = cluster.cpu_s(), cluster.journal()
    starts, ends, waited = [], [], []
    for path in folder.glob("done-*"):
        first, *rest = path.read_text().splitlines()
        starts.append(float(first.split()[0]))
        ends.append(float(first.split()[1]))
        waited += [float(line) for line in rest]
    if len(starts) != TRIALS:
        raise SystemExit(f"reports: {len(starts)} of {TRIALS} trials wrote down how it went")
    waited.sort()
    total, took = TRIALS * REPORTS, max(ends) - min(starts)
    results = pathlib.Path(experiment["results_dir"]).glob("*/result.json")
    lines = sum(path.read_bytes().count(b"\n") for path in results)
    if lines != total:
        raise SystemExit(f"reports: the sinks wrote {lines} results, not {total}")
    print_bench("reports", total / took, "reports/s", ">=50000", peers.reports(with_peers))
    note(f"{total} reports of {TRIALS} C++ trials on 2 workers in {took:.2f} s, to the last ack")
    note(f"sent to committed: median {percentile(waited, 0.5):.1f} ms, 99 % "
         f"{percentile(waited, 0.99):.1f} ms, most {waited[-1]:.1f} ms (bar 100 ms)")
    synced = journal_after["bytes_synced"] - journal["bytes_synced"]
    note(f"journal: {synced} bytes synced ({synced / total:.0f} per report), durable_seq "
         f"{journal['durable_seq']} -> {journal_after['durable_seq']}")
    cpu_note(before, after, total, "report")


def from_python(cluster: BenchCluster) -> None:
    folder = cluster.home / "python"
    folder.mkdir()
    script = cluster.work / "reports.py"
    script.write_text(PYTHON_DRIVER.format(folder=str(folder), trials=TRIALS,
                                           reports=PYTHON_REPORTS))
    cluster.env.update(python_env())
    cluster.env["PATH"] = f"{pathlib.Path(interpreter()).parent}:{os.environ['PATH']}"
    cluster.rt("submit", str(script), timeout=600)
    number = max(item["id"] for item in cluster.json("exp", "list")["items"])
    trials = cluster.trials(number)
    if [trial["reports"] for trial in trials] != [PYTHON_REPORTS] * TRIALS:
        raise SystemExit(f"reports: Python's are not all there: {trials}")
    starts = [float(path.read_text()) for path in folder.glob("start-*")]
    # An attempt ends once all that it reported is committed.
    end = max(datetime.datetime.fromisoformat(trial["ended_at"].replace("Z", "+00:00")).timestamp()
              for trial in trials)
    total = TRIALS * PYTHON_REPORTS
    print_bench("reports_python", total / (end - min(starts)), "reports/s", ">=20000",
                "beside the line above")


def reports(with_peers: bool) -> None:
    """8 processes on 2 workers, mTLS, all sinks on."""
    with BenchCluster(workers=2, cpus=TRIALS // 2) as cluster:
        cluster.run_experiment("warm", "experiment: warm\ncommand: [/bin/true]\nnum_samples: 8\n")
        from_cpp(cluster, with_peers)
        from_python(cluster)
