"""How most scripts for Ray begin: `init` with a number of cpus, then a search."""

import rt as ray
from rt import tune
from rt.tune.schedulers import ASHAScheduler


def objective(config):
    for step in range(1, 10):
        tune.report({"loss": (config["x"] - 2) ** 2 + 1 / step})


ray.init(num_cpus=2, ignore_reinit_error=True)
analysis = tune.run(
    objective,
    metric="loss",
    mode="min",
    num_samples=8,
    config={"x": tune.uniform(0, 4)},
    scheduler=ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3),
    resources_per_trial={"cpu": 1},
)
print("Best config:", analysis.best_config)
ray.shutdown()
