"""Names that Ray has and rt does not have yet, and the errors for importing them.

The table is read only when a name is not found (rt/_paths.py). Names that Ray does not have either
fail with Python's own message.
"""

from __future__ import annotations

from typing import NamedTuple, Optional


class Gap(NamedTuple):
    """Names of one kind. modules: a module's path below `rt` -> its missing names."""

    kind: str
    instead: str
    modules: dict[str, str]


_SEARCHERS = "optuna hyperopt bayesopt bohb ax nevergrad zoopt hebo flaml skopt dragonfly sigopt"

GAPS = [
    Gap(
        "a search algorithm",
        "TPESearch, which learns from results in the head as Optuna's default sampler does, or "
        "BasicVariantGenerator (random and grid search), with ASHAScheduler for stopping early; or "
        "a subclass of tune.search.Searcher, which runs in the script and may ask the library",
        {"tune.search": _SEARCHERS, "tune.suggest": _SEARCHERS},
    ),
    Gap(
        "a scheduler",
        "ASHAScheduler; or a subclass of tune.schedulers.TrialScheduler, which runs in the script",
        {
            "tune.schedulers": "PopulationBasedTraining PopulationBasedTrainingReplay PB2 "
            "MedianStoppingRule HyperBandScheduler HyperBandForBOHB ResourceChangingScheduler pbt "
            "pb2 median_stopping_rule hyperband hb_bohb resource_changing_scheduler"
        },
    ),
    Gap(
        "a callback for another library",
        "a callback of that library which calls tune.report(metrics, checkpoint=...)",
        {"tune.integration": "pytorch_lightning keras mxnet torch"},
    ),
    Gap(
        "a callback for another library",
        "the library's own calls in the trainable; or a subclass of tune.Callback, which runs in "
        "the script and sees every result. TensorBoard's files are always written",
        {
            "tune.integration": "wandb mlflow comet",
            "air": "integrations",
            "tune.logger": "aim comet mlflow wandb",
        },
    ),
    Gap(
        "a trainer",
        "train.torch.TorchTrainer for PyTorch; or train.DataParallelTrainer, which runs a function "
        "on N ranks with the variables of torchrun",
        {
            "train": "lightning huggingface tensorflow horovod backend trainer collective "
            "BackendConfig TrainingIterator get_all_reported_checkpoints v2"
        },
    ),
    Gap(
        "a trainer",
        "xgboost.train or lightgbm.train in the trainable, with TuneReportCheckpointCallback of "
        "rt.tune.integration.xgboost or rt.tune.integration.lightgbm",
        {"train": "xgboost lightgbm gbdt_trainer sklearn"},
    ),
    Gap(
        "a part of Ray Data",
        "datasets={...} of the trainer, all of which are split without loss; or read in each rank",
        {"train": "DataConfig", "air": "DatasetConfig"},
    ),
    Gap(
        "a source of Ray Data",
        "rt.data.read_csv, read_json, read_parquet, from_items, from_pandas, from_numpy and "
        "from_arrow; another library reads the values, and from_items or map takes them",
        {
            "data": "read_images read_text read_binary_files read_numpy read_sql read_tfrecords "
            "read_webdataset read_mongo read_bigquery read_avro read_databricks_tables read_delta "
            "read_hudi read_iceberg read_lance read_clickhouse read_snowflake read_audio "
            "read_videos read_datasource read_parquet_bulk read_delta_sharing_tables read_kafka "
            "read_mcap read_unity_catalog from_huggingface from_torch from_tf from_spark from_dask "
            "from_modin from_mars from_daft from_blocks from_arrow_refs from_numpy_refs "
            "from_pandas_refs range_tensor"
        },
    ),
    Gap(
        "a part of Ray Data",
        "functions on batches (map_batches), which run in the process that takes the rows",
        {
            "data": "DataContext DatasetContext ActorPoolStrategy TaskPoolStrategy Datasource "
            "ExecutionOptions ExecutionResources Datasink Preprocessor preprocessors aggregate "
            "datasource llm grouped_data expressions FileShuffleConfig RandomSeedConfig "
            "set_progress_bars"
        },
    ),
    Gap(
        "a part of Ray Core",
        "tune.Tuner(function, param_space={'x': tune.grid_search([...])}), which runs a function "
        "for each of many values; rt submit, which runs a script or a program on a cluster",
        {
            "": "remote get put wait kill cancel get_actor method nodes timeline ObjectRef actor "
            "get_runtime_context get_gpu_ids util exceptions cluster_utils dag workflow "
            "runtime_env runtime_context experimental"
        },
    ),
    Gap(
        "a library of its own",
        "a server of your own that loads the checkpoint of a trial (rt trial checkpoint 3/1)",
        {"": "serve"},
    ),
    Gap(
        "a library of its own",
        "a training loop of another library in a function that calls tune.report",
        {"": "rllib", "tune": "register_env"},
    ),
    Gap(
        "a library of its own",
        "rt submit, rt job list, rt job stop and rt logs",
        {"": "job_submission"},
    ),
    Gap("a library of its own", "rt up, rt down and a cluster.yaml", {"": "autoscaler"}),
    Gap(
        "helpers",
        "nvidia-smi, asked in the trainable, in place of wait_for_gpu",
        {"tune": "utils"},
    ),
]


def _names() -> dict[str, Gap]:
    found = {}
    for gap in GAPS:
        for module, names in gap.modules.items():
            for name in names.split():
                found[f"rt.{module}.{name}" if module else f"rt.{name}"] = gap
    return found


NAMES = _names()


def explain(name: str) -> Optional[str]:
    """A sentence about a full name ("rt.tune.search.optuna"), or None when Ray has no such name."""
    gap = NAMES.get(name)
    if gap is None:
        return None
    return f"rt has no {name} yet (in Ray: {gap.kind}). What works now: {gap.instead}"
