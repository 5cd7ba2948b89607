"""Boosted trees on scikit-learn's breast-cancer data, one report per boosting round.

Run it as a plain script, or `rt submit` it. Needs xgboost (the package xgboost-cpu is enough) and
scikit-learn; without xgboost it says so and ends with code 3.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rt import tune

try:
    import xgboost
except ImportError as missing:
    print(f"this example needs xgboost: pip install xgboost-cpu scikit-learn ({missing})")
    sys.exit(3)

ROUNDS = 27  # Of a trial that early stopping lets train to its end.


def train(config: dict[str, Any]) -> None:
    """Boosts trees, and reports the test set's error and log loss after every round."""
    import sklearn.datasets
    from sklearn.model_selection import train_test_split

    class Report(xgboost.callback.TrainingCallback):
        """Hands every round's figures to rt."""

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            figures = evals_log["test"]
            tune.report({"logloss": figures["logloss"][-1], "error": figures["error"][-1]})
            return False  # rt ends the trial where it should end.

    data, labels = sklearn.datasets.load_breast_cancer(return_X_y=True)
    parts = train_test_split(data, labels, test_size=0.25, random_state=1)
    config.update(config.pop("lossguide", {}))
    xgboost.train(
        {"objective": "binary:logistic", "eval_metric": ["logloss", "error"], "nthread": 1,
         "tree_method": "hist", "seed": 1, **config},
        xgboost.DMatrix(parts[0], label=parts[2]),
        num_boost_round=ROUNDS,
        evals=[(xgboost.DMatrix(parts[1], label=parts[3]), "test")],
        verbose_eval=False,
        callbacks=[Report()],
    )  # fmt: skip


def main() -> None:
    """Searches the booster, depth, learning rate and sampling with TPE."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=12)
    args = parser.parse_args()
    tuner = tune.Tuner(
        train,
        param_space={
            "max_depth": tune.randint(1, 9),
            "eta": tune.loguniform(1e-2, 1.0),
            "min_child_weight": tune.choice([1, 2, 3]),
            "subsample": tune.uniform(0.5, 1.0),
            "grow_policy": tune.choice(["depthwise", "lossguide"]),
            # Only where trees grow leaf by leaf.
            "lossguide": {"if": {"grow_policy": "lossguide"}, "max_leaves": tune.randint(4, 33)},
        },
        tune_config=tune.TuneConfig(
            metric="logloss",
            mode="min",
            num_samples=args.samples,
            search_alg=tune.search.TPESearch(),
            scheduler=tune.schedulers.ASHAScheduler(
                max_t=ROUNDS, grace_period=3, reduction_factor=3
            ),
        ),
    )
    results = tuner.fit()
    best = results.get_best_result()
    print("best config:", best.config)
    print(f"best log loss: {best.metrics['logloss']:.4f}, error: {best.metrics['error']:.4f}")
    trained = sum(result.metrics.get("training_iteration", 0) for result in results)
    whole = ROUNDS * len(results)
    saved = 1 - trained / whole
    print(f"early stopping: {trained} of {whole} rounds were trained, {saved:.0%} saved")


if __name__ == "__main__":
    main()
