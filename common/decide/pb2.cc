#include "common/decide/pb2.h"

#include <cmath>

#include "common/decide/pbt.h"

namespace rt {
namespace {

absl::Status CheckBounds(const Json& options, std::string_view path) {
  const std::string where = std::string(path) + "/" + kBoundsOption;
  const char hint[] = "for example {lr: [1e-4, 1e-1]}";
  if (options.Find(kBoundsOption)->object().empty())
    return SpecError(where, "names the parameters that are explored, at least one", hint);
  for (const auto& [name, pair] : options.Find(kBoundsOption)->object()) {
    const bool is_pair = pair.is_array() && pair.array().size() == 2 &&
                         pair.array()[0].is_number() && pair.array()[1].is_number();
    const double lower = is_pair ? pair.array()[0].AsDouble() : NAN;
    const double upper = is_pair ? pair.array()[1].AsDouble() : NAN;
    if (!std::isfinite(lower) || !std::isfinite(upper) || !(lower < upper))
      return SpecError(where + "/" + name, "must be two numbers, the smaller one first", hint);
  }
  return absl::OkStatus();
}

AlgorithmTable MakePb2Table() {
  AlgorithmTable table{.kind = AlgorithmKind::kScheduler,
                       .name = "pb2",
                       .version = 1,
                       .meaning =
                           "Population based bandits: as pbt, and a model of the progress "
                           "chooses the new configurations",
                       .options = PopulationOptions(),
                       .needs_metric = true,
                       .changes_params = true,
                       .check = CheckBounds};
  table.options.push_back({.name = kBoundsOption,
                           .type = AlgorithmOption::Type::kMutations,
                           .default_value = Json::MakeObject(),
                           .meaning = "For each parameter that is explored its lower and upper "
                                      "bound, as a list of two"});
  return table;
}

class Pb2Scheduler final : public PopulationScheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table = MakePb2Table();
    return table;
  }
  bool explores_on_lane() const override { return true; }
};

}  // namespace

const Scheduler& Pb2() {
  static const Pb2Scheduler scheduler;
  return scheduler;
}

}  // namespace rt
