"""One search of real_training.py: real_search.py SIDE TASK SEED SAMPLES."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import real_work

SIDE, TASK, SEED, SAMPLES = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
LOG = os.environ["REAL_TRAINING_LOG"]
RUNGS = {"max_t": real_work.EPOCHS[TASK], "grace_period": 1, "reduction_factor": 3}


def log(line: str) -> None:
    """Appends a line for real_training.py, whole."""
    with open(LOG, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def space(tune: Any) -> dict[str, Any]:
    """The space of the task in the names that rt and Ray share."""
    found = {}
    for name, kind, low, high in real_work.SPACES[TASK]:
        if kind == "choice":
            found[name] = tune.choice(low)
        elif kind == "log":
            found[name] = tune.loguniform(low, high)
        elif kind == "real":
            found[name] = tune.uniform(low, high)
        else:
            make = tune.lograndint if kind == "log int" else tune.randint
            found[name] = make(low, high + 1)
    return found


def with_rt() -> None:
    import rt
    from rt import tune

    def train(config: dict[str, Any]) -> None:
        for accuracy in TRAINING(config):
            log(f"{time.time()} {accuracy} {tune.get_context().get_trial_id()}")
            tune.report({"accuracy": accuracy})

    rt.init(num_cpus=2)
    rt.cluster_resources()  # The cluster is up.
    log(f"begin {time.time()}")
    tune.Tuner(
        train, param_space=space(tune),
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", num_samples=SAMPLES,
            search_alg=tune.create_searcher("auto", random_state=SEED),
            scheduler=tune.schedulers.ASHAScheduler(**RUNGS)),
        run_config=tune.RunConfig(verbose=0)).fit()


def with_ray() -> None:
    import random

    import numpy
    import ray
    from ray import tune

    def train(config: dict[str, Any]) -> None:
        for accuracy in TRAINING(config):
            log(f"{time.time()} {accuracy} {tune.get_context().get_trial_id()}")
            tune.report({"accuracy": accuracy})

    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    random.seed(SEED)
    numpy.random.seed(SEED)
    log(f"begin {time.time()}")
    search, scheduler = None, tune.schedulers.ASHAScheduler(**RUNGS)
    if SIDE == "ray-optuna":
        from ray.tune.search.optuna import OptunaSearch

        search = OptunaSearch(seed=SEED)
    if SIDE == "ray-bohb":
        from ray.tune.search.bohb import TuneBOHB

        search = TuneBOHB(seed=SEED)
        scheduler = tune.schedulers.HyperBandForBOHB(
            max_t=RUNGS["max_t"], reduction_factor=RUNGS["reduction_factor"])
    tune.Tuner(
        train, param_space=space(tune),
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", num_samples=SAMPLES, search_alg=search,
            scheduler=scheduler),
        run_config=tune.RunConfig(verbose=0, storage_path=os.getcwd())).fit()


def with_optuna() -> None:
    import multiprocessing

    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        accuracy = 0.0
        for epoch, accuracy in enumerate(TRAINING(real_work.suggested(trial, TASK)), 1):
            log(f"{time.time()} {accuracy} {trial.number}")
            trial.report(accuracy, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return accuracy

    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)

    def storage() -> JournalStorage:
        return JournalStorage(JournalFileBackend("journal.log"))

    def work(process: int) -> None:
        study = optuna.load_study(
            study_name="real", storage=storage(), pruner=pruner,
            sampler=optuna.samplers.TPESampler(seed=2 * SEED + process))
        study.optimize(objective, n_trials=SAMPLES)

    log(f"begin {time.time()}")
    optuna.create_study(study_name="real", storage=storage(), direction="maximize")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(each,)) for each in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


TRAINING = real_work.TRAININGS[TASK]
if __name__ == "__main__":
    {"rt": with_rt, "optuna": with_optuna}.get(SIDE, with_ray)()
