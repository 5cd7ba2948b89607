"""rt.tune: hyperparameter search under the names of Ray Tune."""

from rt._api import TrialContext, checkpoint_requested, get_checkpoint, get_context, report
from rt._checkpoint import Checkpoint
from rt._config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from rt._errors import TrialError, TuneError
from rt._space import (
    choice,
    grid_search,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from rt._trainable import Trainable
from rt.tune import error, logger, schedulers, search
from rt.tune._analysis import ExperimentAnalysis
from rt.tune._experiment import TuneConfig
from rt.tune._results import Result, ResultGrid
from rt.tune._tuner import Tuner, run
from rt.tune._wrap import register_trainable, with_parameters, with_resources
from rt.tune.schedulers import create_scheduler
from rt.tune.search import create_searcher

TuneContext = TrialContext

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "ExperimentAnalysis",
    "FailureConfig",
    "Result",
    "ResultGrid",
    "RunConfig",
    "SyncConfig",
    "Trainable",
    "TrialError",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "checkpoint_requested",
    "choice",
    "create_scheduler",
    "create_searcher",
    "error",
    "get_checkpoint",
    "get_context",
    "grid_search",
    "logger",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_trainable",
    "report",
    "run",
    "sample_from",
    "schedulers",
    "search",
    "uniform",
    "with_parameters",
    "with_resources",
]
