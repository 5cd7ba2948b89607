"""The keys of a result that have a fixed meaning, under Ray's names."""

DONE = "done"
SHOULD_CHECKPOINT = "should_checkpoint"
TRAINING_ITERATION = "training_iteration"
TIME_THIS_ITER_S = "time_this_iter_s"
TIME_TOTAL_S = "time_total_s"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
TIMESTEPS_TOTAL = "timesteps_total"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODES_TOTAL = "episodes_total"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
MEAN_ACCURACY = "mean_accuracy"
TRIAL_ID = "trial_id"
EXPERIMENT_TAG = "experiment_tag"
HOSTNAME = "hostname"
NODE_IP = "node_ip"
PID = "pid"
TIMESTAMP = "timestamp"
DEFAULT_METRIC = "_metric"  # Of a trainable that returns a number.
RESULT_DUPLICATE = "__duplicate__"
TRIAL_INFO = "__trial_info__"
STDOUT_FILE = "__stdout_file__"
STDERR_FILE = "__stderr_file__"
CONFIG_PREFIX = "config"
DEFAULT_EXPERIMENT_NAME = "default"

# Files in a trial's directory. rt writes no pickles there.
EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = "result.json"
EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"
EXPR_META_FILE = "trial_status.json"
JOB_META_FILE = "job_status.json"

DEFAULT_EXPERIMENT_INFO_KEYS = ("trainable_name", EXPERIMENT_TAG, TRIAL_ID)
DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)
DEBUG_METRICS = (
    TRIAL_ID, "experiment_id", "date", TIMESTAMP, PID, HOSTNAME, NODE_IP, CONFIG_PREFIX,
)  # fmt: skip
AUTO_RESULT_KEYS = (
    TRAINING_ITERATION, TIME_TOTAL_S, EPISODES_TOTAL, TIMESTEPS_TOTAL, NODE_IP, HOSTNAME, PID,
    TIME_THIS_ITER_S, TIMESTAMP, "date", "time_since_restore", "timesteps_since_restore",
    "iterations_since_restore", CONFIG_PREFIX, "checkpoint_dir_name",
)  # fmt: skip
