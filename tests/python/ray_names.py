"""The public names of ray, ray.data, ray.tune, ray.train and ray.air in Ray 2.60, by module."""

NAMES = {
    "": (
        "ActorClassID ActorID ClientBuilder DynamicObjectRefGenerator FunctionID JobID Language "
        "LoggingConfig NodeID ObjectID ObjectRef ObjectRefGenerator PlacementGroupID SCRIPT_MODE "
        "TaskID UniqueID WORKER_MODE WorkerID actor autoscaler available_resources cancel client "
        "cluster_resources cpp_function data get get_actor get_gpu_ids get_runtime_context init "
        "internal is_initialized java_actor_class java_function kill method nodes put remote "
        "shutdown timeline util wait widgets workflow"
    ),
    "data": (
        "ActorPoolStrategy BlockBasedFileDatasink Catalog CatalogAccessMode "
        "ClickHouseTableSettings DataContext DataIterator DatabricksUnityCatalog Dataset "
        "DatasetContext DatasetIterator DatasetSummary Datasink Datasource ExecutionOptions "
        "ExecutionResources FileShuffleConfig KafkaAuthConfig MixStoppingCondition NodeIdStr "
        "Preprocessor RandomSeedConfig ReadTask ReaderFormat ResolvedSource RowBasedFileDatasink "
        "SaveMode Schema SinkMode TaskPoolStrategy from_arrow from_arrow_refs from_blocks "
        "from_daft from_dask from_huggingface from_items from_mars from_modin from_numpy "
        "from_numpy_refs from_pandas from_pandas_refs from_spark from_tf from_torch "
        "list_stats_summaries range range_tensor read_audio read_avro read_binary_files "
        "read_clickhouse read_csv read_datasource read_delta read_delta_sharing_tables read_hudi "
        "read_iceberg read_images read_json read_kafka read_lance read_lerobot read_mcap "
        "read_mongo read_numpy read_orc read_parquet read_snowflake read_sql read_text "
        "read_tfrecords read_unity_catalog read_videos read_webdataset read_zarr"
    ),
    "tune": (
        "CLIReporter Callback Checkpoint CheckpointConfig Experiment ExperimentAnalysis "
        "FailureConfig JupyterNotebookReporter PlacementGroupFactory ProgressReporter Result "
        "ResultGrid ResumeConfig RunConfig Stopper SyncConfig Trainable TuneConfig TuneContext "
        "TuneError Tuner choice create_scheduler create_searcher get_checkpoint get_context "
        "grid_search lograndint loguniform qlograndint qloguniform qrandint qrandn quniform "
        "randint randn register_env register_trainable report run run_experiments sample_from "
        "uniform with_parameters with_resources"
    ),
    "tune.callback": "Callback CallbackList",
    "tune.constants": "",
    "tune.context": "TuneContext get_context",
    "tune.error": "TuneError",
    "tune.progress_reporter": (
        "CLIReporter JupyterNotebookReporter ProgressReporter RemoteReporterMixin "
        "TrialProgressCallback TuneReporterBase"
    ),
    "tune.registry": (
        "get_trainable_cls is_function_trainable register_env register_input register_trainable "
        "registry_contains_input registry_get_input validate_trainable"
    ),
    "tune.resources": "Resources json_to_resources resources_to_json",
    "tune.result": "",
    "tune.result_grid": "ResultGrid",
    "tune.syncer": "SyncConfig",
    "tune.tune": "run run_experiments",
    "tune.tune_config": "ResumeConfig TuneConfig",
    "tune.tuner": "Tuner",
    "tune.analysis": "ExperimentAnalysis",
    "tune.analysis.experiment_analysis": "ExperimentAnalysis",
    "tune.execution": "",
    "tune.execution.class_cache": "",
    "tune.execution.cluster_info": "",
    "tune.execution.experiment_state": "",
    "tune.execution.insufficient_resources_manager": "",
    "tune.execution.placement_groups": "PlacementGroupFactory resource_dict_to_pg_factory",
    "tune.execution.tune_controller": "TrialRunnerWrapper TuneController",
    "tune.experiment": "Experiment Trial",
    "tune.experiment.config_parser": "",
    "tune.experiment.experiment": "Experiment",
    "tune.experiment.trial": "ExportFormat Trial",
    "tune.logger": (
        "CSVLoggerCallback JsonLoggerCallback LoggerCallback TBXLoggerCallback pretty_print"
    ),
    "tune.logger.aim": "AimLoggerCallback",
    "tune.logger.comet": "",
    "tune.logger.csv": "CSVLoggerCallback",
    "tune.logger.json": "JsonLoggerCallback",
    "tune.logger.logger": "LoggerCallback pretty_print",
    "tune.logger.mlflow": "",
    "tune.logger.tensorboardx": "TBXLoggerCallback",
    "tune.logger.wandb": "",
    "tune.schedulers": (
        "ASHAScheduler AsyncHyperBandScheduler FIFOScheduler HyperBandForBOHB HyperBandScheduler "
        "MedianStoppingRule PopulationBasedTraining PopulationBasedTrainingReplay "
        "ResourceChangingScheduler TrialScheduler create_scheduler"
    ),
    "tune.schedulers.async_hyperband": "AsyncHyperBandScheduler",
    "tune.schedulers.hb_bohb": "HyperBandForBOHB",
    "tune.schedulers.hyperband": "HyperBandScheduler",
    "tune.schedulers.median_stopping_rule": "MedianStoppingRule",
    "tune.schedulers.pb2": "PB2",
    "tune.schedulers.pbt": "PopulationBasedTraining PopulationBasedTrainingReplay",
    "tune.schedulers.resource_changing_scheduler": (
        "DistributeResources DistributeResourcesToTopJob ResourceChangingScheduler"
    ),
    "tune.schedulers.trial_scheduler": "FIFOScheduler TrialScheduler",
    "tune.schedulers.util": "",
    "tune.search": (
        "BasicVariantGenerator ConcurrencyLimiter Repeater SearchAlgorithm SearchGenerator "
        "Searcher UNDEFINED_METRIC_MODE UNDEFINED_SEARCH_SPACE UNRESOLVED_SEARCH_SPACE "
        "create_searcher grid_search"
    ),
    "tune.search.basic_variant": "BasicVariantGenerator",
    "tune.search.concurrency_limiter": "ConcurrencyLimiter",
    "tune.search.repeater": "Repeater",
    "tune.search.sample": (
        "BaseSampler Categorical Domain Float Function Grid Integer LogUniform Normal Quantized "
        "Sampler Uniform choice lograndint loguniform qlograndint qloguniform qrandint qrandn "
        "quniform randint randn sample_from uniform"
    ),
    "tune.search.search_algorithm": "SearchAlgorithm",
    "tune.search.search_generator": "SearchGenerator",
    "tune.search.searcher": "ConcurrencyLimiter Searcher",
    "tune.search.util": "",
    "tune.search.variant_generator": (
        "RecursiveDependencyError assign_value format_vars generate_variants grid_search "
        "parse_spec_vars"
    ),
    "tune.search.ax": "AxSearch",
    "tune.search.ax.ax_search": "AxSearch",
    "tune.search.bayesopt": "BayesOptSearch",
    "tune.search.bayesopt.bayesopt_search": "BayesOptSearch",
    "tune.search.bohb": "BOHB TuneBOHB",
    "tune.search.bohb.bohb_search": "TuneBOHB",
    "tune.search.hebo": "HEBOSearch",
    "tune.search.hebo.hebo_search": "HEBOSearch",
    "tune.search.hyperopt": "HyperOptSearch",
    "tune.search.hyperopt.hyperopt_search": "HyperOptSearch",
    "tune.search.nevergrad": "NevergradSearch",
    "tune.search.nevergrad.nevergrad_search": "NevergradSearch",
    "tune.search.optuna": "OptunaSearch",
    "tune.search.optuna.optuna_search": "OptunaSearch",
    "tune.search.zoopt": "ZOOptSearch",
    "tune.search.zoopt.zoopt_search": "ZOOptSearch",
    "tune.stopper": (
        "CombinedStopper ExperimentPlateauStopper FunctionStopper MaximumIterationStopper "
        "NoopStopper Stopper TimeoutStopper TrialPlateauStopper"
    ),
    "tune.stopper.experiment_plateau": "ExperimentPlateauStopper",
    "tune.stopper.function_stopper": "FunctionStopper",
    "tune.stopper.maximum_iteration": "MaximumIterationStopper",
    "tune.stopper.noop": "NoopStopper",
    "tune.stopper.stopper": "CombinedStopper Stopper",
    "tune.stopper.timeout": "TimeoutStopper",
    "tune.stopper.trial_plateau": "TrialPlateauStopper",
    "tune.trainable": "FunctionTrainable Trainable with_parameters wrap_function",
    "tune.trainable.function_trainable": "FunctionTrainable wrap_function",
    "tune.trainable.metadata": "",
    "tune.trainable.trainable": "Trainable",
    "tune.trainable.util": "with_parameters with_resources",
    "train": (
        "BackendConfig Checkpoint CheckpointConfig CheckpointConsistencyMode CheckpointUploadMode "
        "ControllerError DataConfig FailureConfig LoggingConfig MLflowLoggerCallback "
        "PreemptionError ReportedCheckpoint ReportedCheckpointStatus Result RunConfig "
        "ScalingConfig SyncConfig TRAIN_DATASET_KEY TrainContext TrainingFailedError UserCallback "
        "ValidationConfig ValidationFn ValidationTaskConfig WorkerGroupError "
        "get_all_reported_checkpoints get_checkpoint get_context get_dataset_shard "
        "get_preemption_info report"
    ),
    "train.backend": "Backend BackendConfig",
    "train.base_trainer": "BaseTrainer TrainingFailedError format_datasets_for_repr",
    "train.constants": "",
    "train.context": "TrainContext get_context",
    "train.data_parallel_trainer": "DataParallelTrainer",
    "train.error": "SessionMisuseError",
    "train.session": "",
    "train.trainer": "TrainingIterator",
    "train.collective": "",
    "train.collective.collectives": "barrier broadcast_from_rank_zero",
    "train.horovod": "HorovodConfig HorovodTrainer",
    "train.horovod.config": "HorovodConfig",
    "train.horovod.horovod_trainer": "HorovodTrainer",
    "train.huggingface": "",
    "train.huggingface.transformers": "RayTrainReportCallback prepare_trainer",
    "train.lightgbm": "LightGBMCheckpoint LightGBMConfig LightGBMTrainer RayTrainReportCallback",
    "train.lightgbm.config": "LightGBMConfig",
    "train.lightgbm.lightgbm_checkpoint": "LightGBMCheckpoint",
    "train.lightgbm.lightgbm_trainer": "LightGBMTrainer",
    "train.lightgbm.v2": "LightGBMTrainer",
    "train.lightning": (
        "RayDDPStrategy RayDeepSpeedStrategy RayFSDPStrategy RayLightningEnvironment "
        "RayTrainReportCallback prepare_trainer"
    ),
    "train.tensorflow": (
        "TensorflowCheckpoint TensorflowConfig TensorflowTrainer prepare_dataset_shard"
    ),
    "train.tensorflow.config": "TensorflowConfig",
    "train.tensorflow.keras": "RayReportCallback ReportCheckpointCallback",
    "train.tensorflow.tensorflow_checkpoint": "TensorflowCheckpoint",
    "train.tensorflow.tensorflow_trainer": "TensorflowTrainer",
    "train.torch": (
        "TorchCheckpoint TorchConfig TorchTrainer accelerate backward enable_reproducibility "
        "get_device get_devices prepare_data_loader prepare_model prepare_optimizer"
    ),
    "train.torch.config": "TorchConfig",
    "train.torch.torch_checkpoint": "TorchCheckpoint",
    "train.torch.torch_trainer": "TorchTrainer",
    "train.torch.xla": "TorchXLAConfig",
    "train.torch.xla.config": "TorchXLAConfig",
    "train.xgboost": "RayTrainReportCallback XGBoostCheckpoint XGBoostConfig XGBoostTrainer",
    "train.xgboost.config": "XGBoostConfig",
    "train.xgboost.v2": "XGBoostTrainer",
    "train.xgboost.xgboost_checkpoint": "XGBoostCheckpoint",
    "train.xgboost.xgboost_trainer": "XGBoostTrainer",
    "air": (
        "AcquiredResources CheckpointConfig DataBatchType FailureConfig ResourceRequest Result "
        "RunConfig ScalingConfig"
    ),
    "air.config": "CheckpointConfig FailureConfig RunConfig ScalingConfig",
    "air.constants": "",
    "air.data_batch_type": "",
    "air.result": "Result",
    "air.session": "",
    "air.integrations": "",
    "air.integrations.comet": "CometLoggerCallback",
    "air.integrations.keras": "ReportCheckpointCallback",
    "air.integrations.mlflow": "MLflowLoggerCallback setup_mlflow",
    "air.integrations.wandb": "WandbLoggerCallback setup_wandb",
}
