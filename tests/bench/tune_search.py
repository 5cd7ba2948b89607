"""A search of trials that do next to nothing, for the figures about Python trials.

    tune_search.py NAME COUNT SECONDS [short]
"""

import sys
import time

from rt import tune

seconds = float(sys.argv[3])


def trial(config):
    if seconds:
        time.sleep(seconds)
    tune.report({"loss": config["x"]})


tune.Tuner(
    trial,
    param_space={"x": tune.uniform(0, 1)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=int(sys.argv[2])),
    run_config=tune.RunConfig(name=sys.argv[1], verbose=0, short_trials="short" in sys.argv[4:]),
).fit()
