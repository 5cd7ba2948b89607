"""The trainings of real_work.py, one epoch at a time, for searches in virtual time.

    real_epochs.py serve TASK
    real_epochs.py optuna TASK FROM:TO

The first is for bench_fidelity: it reads lines `new ID VALUE...`, with the values in the order of
the space, `next ID`, which it answers with the accuracy after one more epoch, and `end ID`. The
second searches with Optuna's default sampler and successive halving, two trainings at a time of
which each epoch takes the same time, and prints a line per seed as bench_fidelity does:

    real_TASK optuna SEED EPOCHS TRIALS BEST
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import real_training
import real_work

SLOTS, EPOCHS_MAX = 2, 3000


def config_of(task: str, values: list[float]) -> real_work.Config:
    """The configuration with these values, whole numbers where they are."""
    space = sorted(real_work.SPACES[task])
    return {name: value if kind in ("log", "real") else int(value)
            for (name, kind, _, _), value in zip(space, values, strict=True)}


def serve(task: str) -> None:
    """Trains as standard input says."""
    trainings: dict[str, Iterator[float]] = {}
    for line in sys.stdin:
        verb, number, *values = line.split()
        if verb == "new":
            config = config_of(task, [float(value) for value in values])
            trainings[number] = real_work.TRAININGS[task](config)
        elif verb == "end":
            del trainings[number]
        else:
            print(next(trainings[number]), flush=True)


def with_optuna(task: str, seed: int) -> tuple[int, int, float]:
    """Epochs and trials until the target, and the best accuracy."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3))

    slots: list[tuple[optuna.Trial, Iterator[float]] | None] = [None] * SLOTS
    steps = [0] * SLOTS
    trials, best = 0, 0.0
    for row in itertools.count(1):
        slot = row % SLOTS
        training = slots[slot]
        if training is None:
            trial = study.ask()
            config = real_work.suggested(trial, task)
            training = slots[slot] = trial, real_work.TRAININGS[task](config)
            steps[slot] = 0
            trials += 1
        trial, epochs = training
        accuracy = next(epochs)
        steps[slot] += 1
        best = max(best, accuracy)
        if best >= real_training.BEST[task] - real_training.WITHIN or row == EPOCHS_MAX:
            return row, trials, best
        trial.report(accuracy, steps[slot])
        if trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            slots[slot] = None
        elif steps[slot] == real_work.EPOCHS[task]:
            study.tell(trial, accuracy)
            slots[slot] = None
    raise AssertionError


def main() -> None:
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
        return
    begin, stop = (int(part) for part in sys.argv[3].split(":"))
    for seed in range(begin, stop):
        row, trials, best = with_optuna(sys.argv[2], seed)
        print(f"real_{sys.argv[2]} optuna {seed} {row} {trials} {best:.5f}", flush=True)


if __name__ == "__main__":
    main()
