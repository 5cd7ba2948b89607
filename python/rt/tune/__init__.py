"""rt.tune: hyperparameter search under the names of Ray Tune."""

import sys
from types import ModuleType

from rt._api import (
    TrialContext,
    checkpoint_dir,
    checkpoint_requested,
    get_checkpoint,
    get_context,
    report,
)
from rt._checkpoint import Checkpoint
from rt._config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from rt._errors import TrialError, TuneError
from rt._paths import alias, alias_lazily, announce_missing
from rt._resources import PlacementGroupFactory
from rt._space import (
    Categorical,
    Domain,
    Float,
    Integer,
    SampleFrom,
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
from rt.tune import (
    callback,
    error,
    logger,
    progress_reporter,
    result,
    schedulers,
    search,
    stopper,
)
from rt.tune._analysis import ExperimentAnalysis
from rt.tune._experiment import TuneConfig
from rt.tune._experiments import Experiment
from rt.tune._restore import ResumeConfig
from rt.tune._results import Result, ResultGrid
from rt.tune._searchers import LIBRARIES
from rt.tune._trial_base import AnyTrial as Trial
from rt.tune._tuner import Tuner, run, run_experiments
from rt.tune._wrap import (
    FunctionTrainable,
    is_function_trainable,
    lookup,
    register_trainable,
    validate_trainable,
    with_parameters,
    with_resources,
    wrap_function,
)
from rt.tune.callback import Callback
from rt.tune.progress_reporter import CLIReporter, JupyterNotebookReporter, ProgressReporter
from rt.tune.schedulers import create_scheduler
from rt.tune.search import create_searcher
from rt.tune.stopper import Stopper

TuneContext = TrialContext
get_trial_dir = get_context().get_trial_dir
get_trial_id = get_context().get_trial_id
get_trial_name = get_context().get_trial_name
get_trial_resources = get_context().get_trial_resources

__all__ = [
    "CLIReporter",
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "Experiment",
    "ExperimentAnalysis",
    "FailureConfig",
    "JupyterNotebookReporter",
    "PlacementGroupFactory",
    "ProgressReporter",
    "Result",
    "ResultGrid",
    "ResumeConfig",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "Trainable",
    "Trial",
    "TrialError",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "callback",
    "checkpoint_dir",
    "checkpoint_requested",
    "choice",
    "create_scheduler",
    "create_searcher",
    "error",
    "get_checkpoint",
    "get_context",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "grid_search",
    "logger",
    "lograndint",
    "loguniform",
    "progress_reporter",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_trainable",
    "report",
    "result",
    "run",
    "run_experiments",
    "sample_from",
    "schedulers",
    "search",
    "stopper",
    "uniform",
    "with_parameters",
    "with_resources",
]

_PRIMITIVES = [
    "choice", "grid_search", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint",
    "qrandn", "quniform", "randint", "randn", "sample_from", "uniform",
]  # fmt: skip
_DOMAINS = ["Categorical", "Domain", "Float", "Function", "Integer"]
_SAMPLERS = ["BaseSampler", "Grid", "LogUniform", "Normal", "Quantized", "Sampler", "Uniform"]
_VARIANTS = [
    "RecursiveDependencyError", "assign_value", "flatten_resolved_vars", "format_vars",
    "generate_variants", "parse_spec_vars",
]  # fmt: skip
_UTILS = [
    "date_str", "deep_update", "diagnose_serialization", "flatten_dict", "merge_dicts",
    "unflatten_dict", "unflatten_list_dict", "unflattened_lookup", "validate_save_restore",
    "validate_warmstart", "wait_for_gpu", "warn_if_slow",
]  # fmt: skip
_FUNCTIONS = ["FunctionTrainable", "wrap_function"]
_LIBRARY_PATHS = {
    path: [name]
    for parent in ("search", "suggest")
    for library, name in LIBRARIES.items()
    for path in (
        f"rt.tune.{parent}.{library}",
        *([f"rt.tune.{parent}.{library}.{library}_search"] if parent == "search" else []),
    )
}
_SEARCHERS = [
    "BasicVariantGenerator", "ConcurrencyLimiter", "Repeater", "Searcher", "create_searcher",
]  # fmt: skip
_SCHEDULERS = ["ASHAScheduler", "AsyncHyperBandScheduler"]
_IN_TRIAL = ["Checkpoint", "get_checkpoint", "report"]
_SESSION = [
    "checkpoint_dir", "get_trial_dir", "get_trial_id", "get_trial_name", "get_trial_resources",
    "report",
]  # fmt: skip
_kinds = ModuleType("kinds")  # Names of modules that `tune` itself does not have.
for _kind in (Domain, Float, Integer, Categorical):
    setattr(_kinds, _kind.__name__, _kind)
vars(_kinds).update(
    Function=SampleFrom,
    get_trainable_cls=lookup,
    FunctionTrainable=FunctionTrainable,
    wrap_function=wrap_function,
    is_function_trainable=is_function_trainable,
    validate_trainable=validate_trainable,
)

alias(
    [
        sys.modules[__name__],
        search,
        schedulers,
        stopper,
        logger,
        _kinds,
    ],
    {
        "rt.tune.analysis": ["ExperimentAnalysis"],
        "rt.tune.analysis.experiment_analysis": ["ExperimentAnalysis"],
        "rt.tune.execution": [],
        "rt.tune.execution.placement_groups": ["PlacementGroupFactory"],
        "rt.tune.experiment": ["Experiment", "Trial"],
        "rt.tune.experiment.experiment": ["Experiment"],
        "rt.tune.experiment.trial": ["Trial"],
        "rt.tune.impl": [],
        "rt.tune.impl.config": ["CheckpointConfig", "FailureConfig", "RunConfig"],
        "rt.tune.logger.csv": ["CSVLoggerCallback"],
        "rt.tune.logger.json": ["JsonLoggerCallback"],
        "rt.tune.logger.logger": ["LoggerCallback", "pretty_print"],
        "rt.tune.logger.tensorboardx": ["TBXLoggerCallback"],
        "rt.tune.registry": [
            "get_trainable_cls",
            "is_function_trainable",
            "register_trainable",
            "validate_trainable",
        ],
        "rt.tune.result_grid": ["ResultGrid"],
        "rt.tune.sample": [*_PRIMITIVES, *_DOMAINS],
        "rt.tune.context": ["TuneContext", "get_context"],
        "rt.tune.schedulers.async_hyperband": _SCHEDULERS,
        "rt.tune.schedulers.hb_bohb": ["HyperBandForBOHB"],
        "rt.tune.schedulers.hyperband": ["HyperBandScheduler"],
        "rt.tune.schedulers.median_stopping_rule": ["MedianStoppingRule"],
        "rt.tune.schedulers.pb2": ["PB2"],
        "rt.tune.schedulers.pbt": ["PopulationBasedTraining", "PopulationBasedTrainingReplay"],
        "rt.tune.schedulers.resource_changing_scheduler": [
            "DistributeResources",
            "DistributeResourcesToTopJob",
            "ResourceChangingScheduler",
        ],
        "rt.tune.schedulers.trial_scheduler": ["FIFOScheduler", "TrialScheduler"],
        "rt.tune.search.basic_variant": ["BasicVariantGenerator"],
        "rt.tune.search.concurrency_limiter": ["ConcurrencyLimiter"],
        "rt.tune.search.repeater": ["Repeater"],
        "rt.tune.search.sample": [*_PRIMITIVES, *_DOMAINS],
        "rt.tune.search.searcher": ["ConcurrencyLimiter", "Searcher"],
        "rt.tune.search.variant_generator": ["grid_search"],
        "rt.tune.search.search_generator": ["SearchGenerator"],
        "rt.tune.search.search_algorithm": ["SearchAlgorithm"],
        "rt.tune.stopper.experiment_plateau": ["ExperimentPlateauStopper"],
        "rt.tune.stopper.function_stopper": ["FunctionStopper"],
        "rt.tune.stopper.maximum_iteration": ["MaximumIterationStopper"],
        "rt.tune.stopper.noop": ["NoopStopper"],
        "rt.tune.stopper.stopper": ["CombinedStopper", "Stopper"],
        "rt.tune.stopper.timeout": ["TimeoutStopper"],
        "rt.tune.stopper.trial_plateau": ["TrialPlateauStopper"],
        "rt.tune.suggest": _SEARCHERS,
        "rt.tune.suggest.basic_variant": ["BasicVariantGenerator"],
        "rt.tune.suggest.repeater": ["Repeater"],
        "rt.tune.suggest.suggestion": ["ConcurrencyLimiter", "Searcher"],
        "rt.tune.syncer": ["SyncConfig"],
        "rt.tune.trial": ["Trial"],
        "rt.tune.suggest.variant_generator": ["grid_search"],
        "rt.tune.suggest.search_generator": ["SearchGenerator"],
        "rt.tune.trainable": ["Trainable", "with_parameters", "with_resources", *_FUNCTIONS],
        "rt.tune.trainable.function_trainable": _FUNCTIONS,
        "rt.tune.trainable.session": _SESSION,
        "rt.tune.trainable.trainable": ["Trainable"],
        "rt.tune.trainable.trainable_fn_utils": _IN_TRIAL,
        "rt.tune.trainable.util": ["with_parameters", "with_resources"],
        "rt.tune.tune": ["run", "run_experiments"],
        "rt.tune.tune_config": ["ResumeConfig", "TuneConfig"],
        "rt.tune.tuner": ["ResultGrid", "RunConfig", "Trainable", "TuneConfig", "Tuner"],
    },
)
alias_lazily("rt._samplers", {"rt.tune.search.sample": _SAMPLERS})
alias_lazily("rt.tune._ray_searchers", _LIBRARY_PATHS)
alias_lazily("rt.air.integrations.mlflow", {"rt.tune.logger.mlflow": ["MLflowLoggerCallback"]})
alias_lazily("rt.air.integrations.comet", {"rt.tune.logger.comet": ["CometLoggerCallback"]})
alias_lazily("rt.air.integrations.aim", {"rt.tune.logger.aim": ["AimLoggerCallback"]})
alias_lazily("rt.air.integrations.wandb", {"rt.tune.logger.wandb": ["WandbLoggerCallback"]})
alias_lazily("rt.tune._utils", {"rt.tune.utils": _UTILS, "rt.tune.utils.util": _UTILS})
alias_lazily(
    "rt.tune._variants",
    {"rt.tune.search.variant_generator": _VARIANTS, "rt.tune.suggest.variant_generator": _VARIANTS},
)
announce_missing(*(each for name, each in sys.modules.items() if name.startswith("rt.tune")))
