"""Figures about trials that are processes of their own: `trials_1s` and `shell_trials`."""

from __future__ import annotations

import peers
from rt_cluster import BIN, BenchCluster, cpu_note, note, print_bench

SHELL_TRIALS = 1500
PYTHON_TRIALS = 1500
SECOND_TRIALS, SECOND_SLOTS = 992, 16


def shell_trials(with_peers: bool) -> None:
    """No-op programs on two slots: from the creation of the experiment to its end."""
    with BenchCluster(workers=1, cpus=2) as cluster:
        cluster.run_experiment("warm", "experiment: warm\ncommand: [/bin/true]\nnum_samples: 20\n")
        for name, option in (("shell_trials", ""), ("shell_trials_short", "short_trials: true\n")):
            before = cluster.cpu_s()
            done = cluster.run_experiment(
                name, f"experiment: {name}\ncommand: [/bin/true]\nnum_samples: {SHELL_TRIALS}\n" +
                option)
            print_bench(name, SHELL_TRIALS / done["elapsed_s"], "trials/s", ">=600",
                        peers.shell_trials(with_peers))
            note(f"{SHELL_TRIALS} trials of /bin/true, 2 slots, {done['elapsed_s']:.2f} s" +
                 (", short_trials: true" if option else ""))
            cpu_note(before, cluster.cpu_s(), SHELL_TRIALS, "trial")


def python_trials(with_peers: bool) -> None:
    """No-op Python functions on two slots, a process each, forked from a warm-start server."""
    with BenchCluster(workers=1, cpus=2) as cluster:
        cluster.run_search("warm", 20, 0)
        for name, options in (("python_trials", []), ("python_trials_short", ["short"])):
            before = cluster.cpu_s()
            done = cluster.run_search(name, PYTHON_TRIALS, 0, *options)
            print_bench(name, PYTHON_TRIALS / done["elapsed_s"], "trials/s", ">=300",
                        peers.shell_trials(with_peers))
            note(f"{PYTHON_TRIALS} trials of one report, 2 slots, {done['elapsed_s']:.2f} s, the "
                 "start of their server and its imports included" +
                 (", short_trials=True" if options else ""))
            cpu_note(before, cluster.cpu_s(), PYTHON_TRIALS, "trial")


def python_trials_1s(with_peers: bool) -> None:
    """The same that sleep for a second first, on more slots than cores."""
    ideal = SECOND_TRIALS / SECOND_SLOTS
    with BenchCluster(workers=2, cpus=SECOND_SLOTS // 2) as cluster:
        cluster.run_search("warm", 20, 0)
        for name, options in (("python_trials_1s", []), ("python_trials_1s_short", ["short"])):
            before = cluster.cpu_s()
            done = cluster.run_search(name, SECOND_TRIALS, 1, *options)
            print_bench(name, (done["elapsed_s"] / ideal - 1) * 100, "%_over_ideal",
                        "<=1.5", peers.trials_1s(with_peers))
            note(f"{SECOND_TRIALS} Python trials of 1 s and one report, {SECOND_SLOTS} slots on 2 "
                 f"workers: {done['elapsed_s']:.2f} s, ideal {ideal:.1f} s" +
                 (", short_trials=True" if options else ""))
            cpu_note(before, cluster.cpu_s(), SECOND_TRIALS, "trial")


def trials_1s(with_peers: bool) -> None:
    """Trials of one second on more slots than cores, over what their sleep alone takes."""
    program = BIN / "bench_sleep_trial"
    with BenchCluster(workers=2, cpus=SECOND_SLOTS // 2) as cluster:
        cluster.run_experiment("warm", "experiment: warm\ncommand: [/bin/true]\nnum_samples: 20\n")
        before = cluster.cpu_s()
        done = cluster.run_experiment(
            "seconds",
            f"experiment: seconds\ncommand: ['{program}']\nnum_samples: {SECOND_TRIALS}\n"
            "metric: loss\nmode: min\n")
        after = cluster.cpu_s()
        reports = sum(trial["reports"] for trial in cluster.trials(done["id"]))
    ideal = SECOND_TRIALS / SECOND_SLOTS
    if reports != SECOND_TRIALS:
        raise SystemExit(f"trials_1s: {reports} reports of {SECOND_TRIALS}")
    print_bench("trials_1s", (done["elapsed_s"] / ideal - 1) * 100, "%_over_ideal", "<=3",
                peers.trials_1s(with_peers))
    note(f"{SECOND_TRIALS} trials of 1 s and one report, {SECOND_SLOTS} slots on 2 workers: "
         f"{done['elapsed_s']:.2f} s, ideal {ideal:.1f} s")
    cpu_note(before, after, SECOND_TRIALS, "trial")
