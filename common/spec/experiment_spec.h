// What an experiment is: the one description that YAML files, the Python package and the wire
// share. It travels as JSON; ParseExperimentSpec is the only place that says what is valid, for
// what users write (what the journal holds is read by journalled_spec.h). Its
// errors carry the path of the culprit ("scheduler/NAME/OPTION") as the file of their Position, so
// that the YAML layer can turn it into file:line:column.
//
// JSON form (every key optional unless marked):
//   experiment* name                      command  [argv…] with ${param}     script  path
//   space {…}                             num_samples 1                    metric, mode "max"|"min"
//   metric [name, …], mode [one for each] (several objectives)
//   constraints {key: {"<=": n} | {">=": n}} (of the newest row of a trial)
//   strict_metric true (a row without the metric fails its trial)
//   search, scheduler {NAME: {OPTION: value}}   (by the tables of common/spec/algorithm.h)
//   stop {key: number | {"<=": n} | {">=": n}, "plateau": {…}, "experiment_plateau": {…}} | text
//   resources {"cpu": 1, "gpu": 0, "memory": "1GiB",
// …}   max_concurrent 0 (no limit)           max_failures 0 (-1: without end)   fail_fast false
//   priority 0 (-1000 to 1000: the higher one first)     short_trials false
//   limit_cpu false    suspend false
//   reallocation {"distribute": {…}} | {"distribute_to_top": {…}}   (reallocation.h)
//   time_budget seconds or "90m"          seed                               env {K: V}
//   results_dir path                      report_regex text
//   retry [{"exit_code": n | [n…], "log": regex, "then": "retry"|"fail"|"exclude_node"}]
//   breaker false | {"trials": 5, "within": 60}
//   watchdog {"factor": k, "min": 60, "restarts": 3, "dump": false}
//   preflight false | true | {"min_bus_gbps": n}
//   checkpoints {"num_to_keep": n, "score_attribute": key, "score_order": "max"|"min",
//     "durable_after": "store"|"peer"|"local"}
//   driver {"suggests": bool, "judges": bool, "chooses": bool, "watches": bool, "explores": bool,
//   "allocates": bool, "search": name, "scheduler": name}
//   Set by clients, not by people: trainable (a name), bundle (manifest digest of the working
//   directory), inputs [{"manifest": digest, "env": NAME}], cwd (path on the same machine).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/fields.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/algorithm.h"
#include "common/spec/experiment_plateau.h"
#include "common/spec/plateau.h"
#include "common/spec/policies.h"
#include "common/spec/reallocation.h"
#include "common/spec/resource_request.h"
#include "common/spec/space.h"
#include "common/spec/stop_expression.h"

namespace rt {

enum class Mode { kMax, kMin };

// Stops the trial whose report's `key` (flattened with '/') reaches the threshold.
struct StopRule {
  std::string key;
  bool at_most = false;  // value <= threshold; otherwise value >= threshold.
  double threshold = 0;
};

// One of several values that the search improves.
struct Objective {
  std::string metric;
  Mode mode = Mode::kMax;
};

struct CheckpointPolicy {
  std::optional<int> num_to_keep;    // Absent: all.
  std::string score_attribute;       // Empty: the most recent ones.
  Mode score_order = Mode::kMax;
  DurableAfter durable_after = DurableAfter::kStore;
};

// What the driver, a program of the user's, is asked while the search runs
// (head/core/driver_hooks.cc).
struct DriverSpec {
  bool searches = false;      // Suggests configurations: only its answers create trials.
  bool schedules = false;     // Decides about rows: a trial continues after its answer.
  bool selects_next = false;  // Selects the next trial: trials are created paused.
  bool observes = false;      // Only reads; how far it has read is remembered.
  bool explores = false;      // Changes the configurations of clones before they are made.
  bool allocates = false;     // Gives running trials other resources (head/core/reallocation.cc).
  std::string search;     // Names of what it asks, for people; empty: the head's own.
  std::string scheduler;

  bool IsAsked() const {
    return searches || schedules || selects_next || observes || explores || allocates;
  }
};

// Bytes that an attempt needs beside its bundle; the path they were pulled to is put into `env`.
struct InputFile {
  std::string manifest;
  std::string env;
  RT_FIELDS(InputFile, manifest, env);
};

// The input that the Python package's trials unpickle.
inline constexpr char kTrainableInput[] = "RT_TRAINABLE";

struct ExperimentSpec {
  std::string name;
  std::string trainable;  // For the names of trials; the experiment's name when empty.
  std::vector<std::string> command;
  Space space;
  int64_t num_samples = 1;  // -1: without end.
  AlgorithmSpec search;
  std::string metric;       // Empty: none.
  Mode mode = Mode::kMax;
  // Of several objectives: all of them, `metric` and `mode` first. Empty: there is one, or none.
  std::vector<Objective> objectives;
  // A trial whose newest row does not keep them is worse than every trial that does.
  std::vector<StopRule> constraints;
  // A row without the metric fails its trial. Users' specs: true unless they say otherwise.
  bool strict_metric = false;
  // Whether a model's proposal is taken if a trial has its configuration. Otherwise, as in specs of
  // earlier releases, it is if a trial has its point: the end of a range is proposed again then,
  // because the configuration there is a little less, and so is its point. Users' specs: true.
  bool compares_configurations = false;
  AlgorithmSpec scheduler;
  std::vector<StopRule> stop;
  StopExpression stop_when;  // Besides these rules.
  PlateauRule plateau;       // As well.
  ExperimentPlateauRule experiment_plateau;  // Ends the search.
  ResourceRequest resources;
  ReallocationSpec reallocation;  // Trials get others while the search runs.
  int max_concurrent = 0;
  bool limit_cpu = false;     // The kernel holds each rank to the cpus that it asked for.
  bool short_trials = false;  // Waiting trials may be backfilled behind running ones.
  int priority = 0;           // Trials of lower priorities are suspended for its trials.
  int max_failures = 0;
  bool fail_fast = false;
  std::vector<RetryRule> retry;  // The first that matches.
  BreakerSpec breaker;
  WatchdogSpec watchdog;
  PreflightSpec preflight;
  bool suspend = false;    // Trials that are paused or preempted are frozen where they are.
  Millis time_budget = 0;  // 0: none.
  std::optional<uint64_t> seed;
  std::map<std::string, std::string> env;
  std::string results_dir;
  std::string report_regex;
  CheckpointPolicy checkpoints;
  DriverSpec driver;
  std::string bundle;
  std::vector<InputFile> inputs;
  std::string cwd;
  // Derived. Of each point that the search is given: the trials of the points up to it and its own.
  std::vector<uint64_t> trials_through;

  // The keys that decide how good the newest row of a trial is, the objectives' and then the
  // constraints'; empty: only the best value of `metric` counts.
  std::vector<std::string> OutcomeKeys() const;
  // Grid points times samples; nullopt: unbounded.
  std::optional<uint64_t> TrialsTotal() const;
};

// What a later release has come to refuse is still read where it was accepted before.
enum class SpecSource { kUser, kJournal };
absl::StatusOr<ExperimentSpec> ParseExperimentSpec(const Json& json,
                                                   SpecSource source = SpecSource::kUser);
// The configurations that the search is given for its first samples.
const Json::Array& PointsOf(const ExperimentSpec& spec);
// Fills in trials_through: grids that a point fixes count once.
void CountTrialsOfPoints(ExperimentSpec& spec);

// The path that an error of the parsers above is about ("scheduler/NAME/OPTION"; empty: unknown).
absl::Status SpecError(std::string_view path, std::string_view message,
                       std::string_view hint = "");
std::string SpecPathOf(const absl::Status& status);
// An error with a hint for what is at `path` (empty: the spec itself) if it is not an object, and
// for the first key of the object that is not in `known`. Also for files of rt's own.
absl::Status CheckKeys(const Json& json, const std::vector<std::string>& known,
                       std::string_view path);

// The value of `key` in a row: a flattened metric, or one of the counters that rt fills in
// (training_iteration, time_total_s). nullopt when it is absent or not a number.
struct RowView {
  const Json& metrics;
  double iteration = 0;
  double time_total_s = 0;
};
std::optional<double> RowValue(const RowView& row, std::string_view key);
// The first rule that the row meets; null when none.
const StopRule* MetRule(const std::vector<StopRule>& rules, const RowView& row);

// argv of one trial: every ${name} in `command` replaced by the parameter's text. An argument that
// names a parameter of `space` which this configuration does not have is left out. An unknown name
// is an error that lists the known ones; so is an argv above limits::kArgvBytesMax.
absl::StatusOr<std::vector<std::string>> SubstituteCommand(const std::vector<std::string>& command,
                                                           const Json& params,
                                                           const Space& space = {});

}  // namespace rt
