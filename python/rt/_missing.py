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


_SEARCHERS = "flaml skopt dragonfly sigopt"  # Of older releases of Ray.

GAPS = [
    Gap(
        "a search algorithm",
        "TPESearch or CMAESSearch, which learn from results in the head, with ASHAScheduler for "
        "stopping early; or a subclass of tune.search.Searcher, which runs in the script and may "
        "ask the library",
        {
            "tune.search": _SEARCHERS,
            "tune.suggest": _SEARCHERS,
            "tune.search.bohb": "BOHB",
        },
    ),
    Gap(
        "a callback for another library",
        "a callback of that library which calls tune.report(metrics, checkpoint=...)",
        {"tune.integration": "mxnet torch ray_train"},
    ),
    Gap(
        "a callback for another library",
        "the callbacks of rt.air.integrations.mlflow, rt.air.integrations.wandb, "
        "rt.air.integrations.comet and rt.tune.logger.aim. TensorBoard's files are always written",
        {
            "tune.integration": "wandb mlflow comet",
            "train": "MLflowLoggerCallback",
            "tune.logger": "AimLoggerCallback CometLoggerCallback MLflowLoggerCallback "
            "WandbLoggerCallback",
        },
    ),
    Gap(
        "a trainer",
        "train.torch.TorchTrainer for PyTorch; or train.DataParallelTrainer, which runs a function "
        "on N ranks with the variables of torchrun",
        {
            "train": "horovod backend trainer collective BackendConfig TrainingIterator v2 jax",
            "train.huggingface": "accelerate TransformersTrainer",
            "train.tensorflow": "TensorflowCheckpoint TensorflowConfig TensorflowTrainer "
            "prepare_dataset_shard config tensorflow_checkpoint tensorflow_trainer "
            "train_loop_utils",
            "train.base_trainer": "BaseTrainer format_datasets_for_repr",
        },
    ),
    Gap(
        "a trainer",
        "xgboost.train or lightgbm.train in the trainable, with TuneReportCheckpointCallback of "
        "rt.tune.integration.xgboost or rt.tune.integration.lightgbm",
        {
            "train": "gbdt_trainer sklearn",
            "train.xgboost": "XGBoostCheckpoint XGBoostConfig XGBoostTrainer config "
            "xgboost_checkpoint xgboost_trainer v2",
            "train.lightgbm": "LightGBMCheckpoint LightGBMConfig LightGBMTrainer config "
            "lightgbm_checkpoint lightgbm_trainer v2 get_network_params "
            "normalize_pandas_for_lightgbm",
        },
    ),
    Gap(
        "a part of Ray Data",
        "datasets={...} of the trainer, all of which are split without loss; or read in each rank",
        {
            "train": "DataConfig",
            "air": "DatasetConfig DatasetIterator DataBatchType data_batch_type util",
            "air.config": "DatasetConfig",
        },
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
            "from_pandas_refs range_tensor read_lerobot read_orc read_zarr Catalog "
            "CatalogAccessMode DatabricksUnityCatalog ClickHouseTableSettings KafkaAuthConfig "
            "ReaderFormat ResolvedSource ReadTask"
        },
    ),
    Gap(
        "a part of Ray Data",
        "functions on batches (map_batches), which run in the process that takes the rows",
        {
            "data": "DataContext DatasetContext ActorPoolStrategy TaskPoolStrategy Datasource "
            "ExecutionOptions ExecutionResources Datasink Preprocessor preprocessors aggregate "
            "datasource llm grouped_data expressions FileShuffleConfig RandomSeedConfig "
            "set_progress_bars DatasetIterator DatasetSummary MixStoppingCondition NodeIdStr "
            "BlockBasedFileDatasink RowBasedFileDatasink SinkMode SaveMode list_stats_summaries"
        },
    ),
    Gap(
        "a part of Ray Core",
        "rt.remote, rt.get, rt.put, rt.wait and actors; runtime_env={'env_vars': {...}} of a task; "
        "rt submit, which runs a script or a program on a cluster",
        {
            "": "timeline cluster_utils dag workflow "
            "runtime_env runtime_context experimental client ClientBuilder java_actor_class "
            "java_function cpp_function Language SCRIPT_MODE WORKER_MODE LoggingConfig internal "
            "widgets ActorClassID ActorID NodeID JobID WorkerID FunctionID ObjectID TaskID "
            "UniqueID PlacementGroupID",
            "util": "placement_group scheduling_strategies state metrics multiprocessing joblib "
            "collective iter get_node_ip_address list_named_actors inspect_serializability "
            "register_serializer deregister_serializer remove_placement_group dask spark sgd "
            "placement_group_table get_placement_group get_current_placement_group accelerators "
            "connect disconnect debugpy rpdb tracing timer",
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
        {
            "": "rllib",
            "tune": "register_env",
            "tune.registry": "register_env register_input registry_contains_input "
            "registry_get_input",
        },
    ),
    Gap(
        "a library of its own",
        "rt submit, rt job list, rt job stop and rt logs",
        {"": "job_submission"},
    ),
    Gap(
        "commands for clusters",
        "rt up, rt down, rt submit and rt node list with a cluster.yaml",
        {
            "autoscaler": "node_launch_exception",
            "autoscaler.sdk": "create_or_update_cluster teardown_cluster run_on_cluster rsync "
            "get_head_node_ip get_worker_node_ips configure_logging bootstrap_config "
            "fillout_defaults register_callback_handler get_docker_host_mount_location",
        },
    ),
    Gap(
        "helpers",
        "rt.tune.utils, which has the helpers for dicts, wait_for_gpu and validate_save_restore; "
        "verbose=0, 1 or 2 of RunConfig; rt watch, which shows the use of cpus and gpus",
        {
            "train": "utils",
            "tune.utils": "UtilMonitor log callback",
            "tune.utils.util": "UtilMonitor Tee retry_fn",
        },
    ),
    Gap(
        "the older loggers",
        "a subclass of tune.logger.LoggerCallback in RunConfig(callbacks=[...]). result.json, "
        "progress.csv and TensorBoard's files are always written",
        {
            "tune.logger": "UnifiedLogger Logger NoopLogger JsonLogger CSVLogger TBXLogger "
            "TestLogger ExperimentLogger LegacyLoggerCallback noop unified",
            "tune.logger.csv": "CSVLogger",
            "tune.logger.json": "JsonLogger",
            "tune.logger.tensorboardx": "TBXLogger",
            "tune.logger.logger": "Logger",
        },
    ),
    Gap(
        "a callback of Ray Train",
        "a subclass of tune.Callback in RunConfig(callbacks=[...]): on_trial_result and "
        "on_checkpoint take the place of after_report",
        {"train": "UserCallback", "tune": "UserCallback", "tune.callback": "UserCallback"},
    ),
    Gap(
        "a kind of callback",
        "a list of tune.Callback in RunConfig(callbacks=[...])",
        {"tune.callback": "CallbackList CallbackMeta warnings"},
    ),
    Gap(
        "a class around a function",
        "the function itself, which is a trainable; or a subclass of tune.Trainable",
        {
            "tune": "DurableTrainable durable durable_trainable function_runner",
            "tune.trainable": "metadata",
        },
    ),
    Gap(
        "an internal part of searchers",
        "a subclass of tune.search.Searcher; tune.search.ConcurrencyLimiter around it",
        {
            "tune.search": "util",
            "tune.suggest": "util",
            "tune.schedulers": "util pb2_utils",
            "tune.schedulers.pb2": "import_pb2_dependencies",
        },
    ),
    Gap(
        "an internal part of Ray Tune",
        "tune.Tuner and tune.run, and subclasses of Searcher, TrialScheduler, Stopper or Callback",
        {
            "tune": "constants experimental automl trial_runner trial_executor "
            "ray_trial_executor is_session_enabled session",
            "tune.execution": "class_cache cluster_info experiment_state "
            "insufficient_resources_manager tune_controller trial_runner ray_trial_executor "
            "checkpoint_manager",
            "tune.experiment": "config_parser",
            "tune.progress_reporter": "TuneReporterBase RemoteReporterMixin TrialProgressCallback",
        },
    ),
    Gap(
        "a request of resources",
        "tune.with_resources(trainable, {'cpu': 2, 'gpu': 1}), or tune.PlacementGroupFactory",
        {
            "tune": "resources",
            "tune.execution.placement_groups": "resource_dict_to_pg_factory",
            "air": "execution AcquiredResources ResourceRequest",
        },
    ),
    Gap(
        "the program `tune`",
        "rt exp list, rt trial list and rt exp show",
        {"tune": "cli commands"},
    ),
    Gap(
        "a part of syncing",
        "RunConfig(storage_path=...); files travel over the head's port, and rt exp download "
        "fetches them",
        {
            "tune": "cloud",
            "tune.syncer": "Syncer SyncerCallback",
            "tune.experiment.trial": "ExportFormat",
        },
    ),
    Gap(
        "helpers for mixed precision",
        "torch.autocast and torch.amp.GradScaler in the training function; the optimizer is used "
        "as it is",
        {
            "train.torch": "prepare_optimizer backward accelerate TorchWorkerProfiler",
            "train.torch.train_loop_utils": "prepare_optimizer backward accelerate "
            "TorchWorkerProfiler",
        },
    ),
    Gap(
        "a checkpoint with a model",
        "torch.save into a directory, and train.Checkpoint.from_directory(directory)",
        {"train.torch": "TorchCheckpoint torch_checkpoint LegacyTorchCheckpoint"},
    ),
    Gap(
        "training on other devices",
        "TorchTrainer on cpus, or with ScalingConfig(use_gpu=True)",
        {"train.torch": "xla"},
    ),
    Gap(
        "what Ray Train reports about checkpoints",
        "result.best_checkpoints after fit(), and rt trial show while it runs; CheckpointConfig("
        "durable_after=...) says when a checkpoint counts",
        {
            "train": "get_all_reported_checkpoints ReportedCheckpoint ReportedCheckpointStatus "
            "CheckpointUploadMode CheckpointConsistencyMode"
        },
    ),
    Gap(
        "validation in parallel with the training",
        "validation in the training function, on rank 0 or on all ranks",
        {"train": "ValidationConfig ValidationFn ValidationTaskConfig"},
    ),
    Gap(
        "a setting of logs",
        "rt logs -f TRIAL, and RunConfig(log_to_file=True)",
        {"train": "LoggingConfig"},
    ),
    Gap(
        "an error of Ray Train",
        "train.TrainingFailedError, whose __cause__ is the first error of the run",
        {
            "train": "ControllerError WorkerGroupError PreemptionError NCCLHangError error",
        },
    ),
    Gap(
        "news of a preemption",
        "train.checkpoint_requested(), which returns the seconds that are left, or None",
        {"train": "get_preemption_info PreemptionInfo"},
    ),
    Gap(
        "an internal part of Ray Train",
        "train.report, train.get_context and train.get_checkpoint",
        {
            "train": "constants session",
            "air": "constants",
            "train.torch.config": "TorchConfigContextManager",
        },
    ),
]

_SAMPLERS = "get_sampler(), which is Uniform() where none was chosen"
_CONTROLS = "get_trials(), get_live_trials(), stop_trial() and pause_trial()"
_ANALYSIS = "trial_dataframes, results and get_all_configs()"

# Attributes of objects, by the name that Ray gives to the class.
METHODS = {
    "rt.train.TrainContext": {
        "get_storage": "get_trial_dir() for files of this rank; train.report(checkpoint=...) for "
        "what is to be kept",
        "get_metadata": "a value in train_loop_config, or Checkpoint.set_metadata",
    },
    "rt.train.Result": {
        "return_value": "train.report at the end of the training function; result.metrics has it",
    },
    "rt.tune.ExperimentAnalysis": {
        "fetch_trial_dataframes": _ANALYSIS,
        "runner_data": _ANALYSIS,
        "stats": _ANALYSIS,
    },
    "rt.tune.Trial": {
        "local_dir": "local_path, whose parent has the files of the search",
        "local_experiment_path": "local_path, whose parent has the files of the search",
        "node_ip": "last_result['node_ip'] and last_result['hostname']",
        "error_file": "error, and error.txt in local_path",
        "get_error": "error, of a trial of ResultGrid or ExperimentAnalysis",
        "placement_group_factory": "rt trial show",
        "set_config": "a configuration that suggest() returns",
        "set_status": "the answer of on_trial_result: PAUSE or STOP",
        "runner": "tune.get_context() in the trainable",
    },
    "rt.tune.search.sample.Domain": {
        "default_sampler_cls": _SAMPLERS,
    },
    "rt.tune.execution.tune_controller.TuneController": {
        "trial_executor": _CONTROLS,
        "resource_updater": "tune.get_context().get_trial_resources() in the trainable",
        "add_trial": "a configuration that suggest() of a Searcher returns",
        "checkpoint": "nothing to call: the head keeps the state of every trial",
    },
}

# Arguments of Ray's classes. None and False are accepted.
ARGUMENTS = {
    "ScalingConfig": {
        "label_selector": "a custom resource of the nodes that are meant",
        "use_tpu": "cpus and gpus",
        "topology": "cpus and gpus",
        "elastic_resize_monitor_interval_s": "rt trial resize, which changes a running trial",
    },
    "RunConfig": {
        "worker_runtime_env": "rt.init(runtime_env={'env_vars': {...}})",
        "logging_config": "rt logs -f TRIAL, and log_to_file=True",
    },
    "FailureConfig": {
        "controller_failure_limit": "nothing to set: a head that restarts continues every run",
        "max_preemption_failures": "nothing to set: a preemption is never counted as a failure",
        "relax_collectives_on_preemption": "train.checkpoint_requested()",
        "preemption_grace_s": "train.checkpoint_requested(), which returns the seconds left",
    },
    "TuneConfig": {
        "chdir_to_trial_dir": "RT_CHDIR_TO_TRIAL_DIR=1 in the script's environment",
    },
    "SyncConfig": {
        "upload_dir": "RunConfig(storage_path=...)",
        "syncer": "nothing to set: files travel over the head's port",
    },
}


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
    return _text(name, gap.kind, gap.instead)


def explain_method(owner: str, name: str) -> Optional[str]:
    """The same for an attribute of a class ("rt.train.TrainContext")."""
    instead = METHODS.get(owner, {}).get(name)
    return None if instead is None else _text(f"{owner}.{name}", "an attribute", instead)


def explain_argument(owner: str, name: str) -> Optional[str]:
    """The same for an argument of a class ("ScalingConfig")."""
    instead = ARGUMENTS.get(owner, {}).get(name)
    return None if instead is None else _text(f"{owner}({name}=...)", "an argument", instead)


def _text(name: str, kind: str, instead: str) -> str:
    return f"rt has no {name} yet (in Ray: {kind}). What works now: {instead}"
