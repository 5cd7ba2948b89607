"""The same work with Ray: ray_peer.py NAME prints "PEER VALUE UNIT (what)". For peers.py alone."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from ray import tune  # noqa: E402

BIN = pathlib.Path(sys.executable).parent


def fit(function, samples: int, reuse: bool = False, scheduler=None, space=None,
        cpus: int = 2) -> float:
    """Seconds of Tuner.fit on `cpus` slots, Ray already up."""
    ray.init(num_cpus=cpus, log_to_driver=False, include_dashboard=False)
    config = tune.TuneConfig(num_samples=samples, metric="loss", mode="min", scheduler=scheduler,
                             reuse_actors=reuse)
    tuner = tune.Tuner(function, param_space=space or {}, tune_config=config,
                       run_config=tune.RunConfig(verbose=0, storage_path=tempfile.mkdtemp()))
    start = time.monotonic()
    results = tuner.fit()
    took = time.monotonic() - start
    ray.shutdown()
    if results.num_errors or len(results) != samples:
        raise SystemExit(f"{results.num_errors} errors, {len(results)} results")
    return took


def shell_trials() -> str:
    return f"{50 / fit(lambda config: {'loss': 0.0}, 50):.1f} trials/s (no-op functions)"


def trials_1s() -> str:
    def second(config):
        time.sleep(1)
        return {"loss": 0.0}

    took = fit(second, 320, reuse=True, cpus=16)
    return f"+{(took / 20 - 1) * 100:.0f} % (320 trials on 16 slots, reusing processes)"


def reports() -> str:
    def reporter(count):
        def run(config):
            for step in range(count):
                tune.report({"loss": 1.0 / (step + 1)})

        return run

    long, short = fit(reporter(3000), 2), fit(reporter(1000), 2)  # Start-up cancels.
    return f"{2 * 2000 / (long - short):.0f} reports/s (2 trials)"


def train_digits(config) -> None:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    warnings.filterwarnings("ignore")
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.2, random_state=0)
    network = MLPClassifier(hidden_layer_sizes=(config["width"],), learning_rate_init=config["lr"],
                            batch_size=config["batch"], alpha=config["alpha"], random_state=0)
    for _ in range(27):
        network.partial_fit(train_x, train_y, classes=range(10))
        tune.report({"loss": 1 - network.score(test_x, test_y)})


def digits() -> str:
    space = {"lr": tune.loguniform(1e-4, 1e-1), "width": tune.qrandint(8, 128, 8),
             "batch": tune.choice([16, 32, 64, 128]), "alpha": tune.loguniform(1e-6, 1e-2)}

    def once(reuse: bool) -> float:
        asha = tune.schedulers.ASHAScheduler(max_t=27, grace_period=3, reduction_factor=3)
        return fit(train_digits, 48, reuse=reuse, scheduler=asha, space=space)

    return f"{once(False):.1f} s; {once(True):.1f} s reusing processes (ray.init left out)"


def submit() -> str:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    script = pathlib.Path(tempfile.mkdtemp()) / "empty.py"
    script.write_text("")
    start = time.monotonic()
    try:
        for argv in (["ray", "start", "--head", "--disable-usage-stats"],
                     ["ray", "job", "submit", "--", sys.executable, str(script)]):
            subprocess.run(argv, env=env, check=True, capture_output=True)
    finally:
        subprocess.run([str(BIN / "ray"), "stop"], env=env, check=True, capture_output=True)
    return f"{time.monotonic() - start:.1f} s (start, job submit, stop)"


def idle() -> str:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    subprocess.run([str(BIN / "ray"), "start", "--head", "--disable-usage-stats"], env=env,
                   check=True, capture_output=True)
    try:
        time.sleep(10)
        sizes = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace")
                status = (process / "status").read_text()
            except OSError:
                continue
            if str(BIN.parent) in command and int(process.name) != os.getpid():
                sizes += [int(line.split()[1]) for line in status.splitlines()
                          if line.startswith("VmRSS")]
    finally:
        subprocess.run([str(BIN / "ray"), "stop"], env=env, check=True, capture_output=True)
    return f"{sum(sizes) * 1024 / 1e6:.0f} MB ({len(sizes)} processes)"


WORK = {"shell_trials": shell_trials, "trials_1s": trials_1s, "reports": reports,
        "digits": digits, "submit": submit, "idle": idle}
print(f"PEER {WORK[sys.argv[1]]()}, Ray {ray.__version__}")
