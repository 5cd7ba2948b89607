"""A search whose trials import scikit-learn: wrapped_search.py bare|wrapped."""

import sys

from rt import tune

TRIALS = 24


def trial(config, scale=1.0):
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(alpha=config["alpha"], random_state=0)
    model.fit([[0.0], [1.0]], [0, 1])
    tune.report({"score": model.score([[0.0], [1.0]], [0, 1]) * scale})


trainable = trial
if sys.argv[1] == "wrapped":
    trainable = tune.with_resources(tune.with_parameters(trial, scale=2.0), {"cpu": 1})

grid = tune.Tuner(
    trainable,
    param_space={"alpha": tune.loguniform(1e-6, 1e-2)},
    tune_config=tune.TuneConfig(metric="score", mode="max", num_samples=TRIALS),
    run_config=tune.RunConfig(verbose=0),
).fit()
if grid.num_errors or len(grid) != TRIALS:
    sys.exit(f"{grid.num_errors} of {len(grid)} trials failed: {grid.errors[:1]}")
