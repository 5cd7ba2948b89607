// An algorithm as a spec names it: a search algorithm or a scheduler, its version and its options.
// Each algorithm declares a table of its options; everything that knows their names comes from it:
// the parser of specs, the normalised form in the journal, `rt plan`, docs and the Python package.
// The registry (common/algorithms) lists the algorithms. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

struct Space;

enum class AlgorithmKind { kSearch, kScheduler };

// One option of an algorithm.
struct AlgorithmOption {
  enum class Type {
    kNumber,
    kInteger,
    kFlag,
    kMetricName,   // The name of a value that rows report.
    kPoints,       // Configurations that the first samples take as they are; it is called "points".
    kEvaluated,    // [{"config", "value"}]: what is known before the search begins.
    kExperiments,  // Numbers of earlier experiments; the head replaces them by their results.
    kMutations,    // For each parameter, or map of parameters, its values in order or its domain.
  };
  std::string name;
  Type type = Type::kNumber;
  Json default_value;
  std::string meaning;  // One sentence for people, without its full stop.
  // Of numbers. `is_open`: the lower bound itself is not allowed.
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  bool is_open = false;
};

struct AlgorithmTable {
  AlgorithmKind kind = AlgorithmKind::kSearch;
  std::string name;
  // Grows whenever the same records would lead to another answer. The registry keeps a version that
  // a release wrote beside the next one.
  uint32_t version = 1;
  std::string meaning;                // One sentence for people, without its full stop.
  std::vector<AlgorithmOption> options;
  std::vector<std::string> aliases = {};  // Other names that users may write.
  bool needs_metric = false;
  // Of a search algorithm with a metric: it learns from several objectives and from constraints.
  bool knows_outcomes = false;
  // Of a search algorithm: it learns from the values of trials at the scheduler's rungs.
  bool reads_rungs = false;
  // Of a scheduler: it compares the values of trials that have trained equally long.
  bool has_rungs = false;
  // Of a scheduler: it changes the configurations of trials, so that their results are not those of
  // what was proposed.
  bool changes_params = false;
  // Of a scheduler: the driver may change the configurations of its clones.
  bool driver_may_explore = false;
  // Rules between options, which ranges do not express. `path` is that of the options.
  absl::Status (*check)(const Json& options, std::string_view path) = nullptr;
  // Of a search algorithm: what it cannot search is refused, with the path in the space.
  absl::Status (*check_space)(const Space& space) = nullptr;
};

// `options` holds every option of the table, with its default where the user gave none.
struct AlgorithmSpec {
  std::string name;
  uint32_t version = 0;
  Json options = Json::MakeObject();
  friend bool operator==(const AlgorithmSpec&, const AlgorithmSpec&) = default;
};

// The tables of all algorithms of a kind, the default first. Defined by common/algorithms, from
// its registry: a program links the list of algorithms that it knows.
const std::vector<const AlgorithmTable*>& AlgorithmTables(AlgorithmKind kind);
// The newest version under that name or alias; null when none is registered.
const AlgorithmTable* FindTable(AlgorithmKind kind, std::string_view name);

// "search" or "scheduler": the key of a spec.
std::string_view KeyOf(AlgorithmKind kind);
// The algorithm without any option given.
AlgorithmSpec DefaultsOf(const AlgorithmTable& table);
AlgorithmSpec DefaultAlgorithm(AlgorithmKind kind);

// What a user wrote under `search` or `scheduler`: a name, or a map of one name to its options.
// Null is the default. Errors carry the path of the culprit, as in experiment_spec.h.
absl::StatusOr<AlgorithmSpec> ParseAlgorithm(AlgorithmKind kind, const Json* json);

// The normalised form: {"name", "version", "options"}.
Json ToNormal(const AlgorithmSpec& spec);
// The options of one algorithm as the journal has them. What cannot be used keeps its default, and
// a sentence about it is added to `warnings`; nothing is refused.
AlgorithmSpec ReadJournalledOptions(const AlgorithmTable& table, const Json& options,
                                    const std::string& path, std::vector<std::string>& warnings);
// The journalled algorithm. `is_known` is false for one that this release does not have; the result
// is the default then.
AlgorithmSpec ReadJournalledAlgorithm(AlgorithmKind kind, const Json& normal,
                                      std::vector<std::string>& warnings, bool& is_known);

// The names of reported values that the options hold: without them the algorithm sees nothing.
struct NamedMetric {
  std::string option;
  std::string metric;
};
std::vector<NamedMetric> MetricsOf(AlgorithmKind kind, const AlgorithmSpec& spec);

// For people and the Python package: {"kind", "name", "version", "meaning", "aliases", "options":
// [{"name", "type", "default", "lower", "upper", "open", "meaning"}]}.
Json ToJson(const AlgorithmTable& table);

}  // namespace rt
