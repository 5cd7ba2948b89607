// `rt bridge --optimize`: a search algorithm of the head for a loop of the driver's own, without a
// cluster (common/algorithms/ask_tell.h). JSON lines on standard input and output, one request
// after the other, in the form of the bridge (cli/bridge/bridge.h):
//   {"op":"hello"}                    {"version"}
//   {"op":"open","spec":…,"seed":N}   {}; the spec is that of an experiment
//   {"op":"ask","n":N}                {"trials":[{"number","params","fallback"?}…]}; fewer where
//                                     the space is used up
//   {"op":"tell","number":N,…}        {}; with "value":X, "error":true or "unknown":true
//   {"op":"add","params":[{…}…]}      {}; trials that were asked for before; numbers follow
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/algorithms/ask_tell.h"
#include "common/base/json.h"

namespace rt {

class OptimizerBridge {
 public:
  // One request's answer.
  absl::StatusOr<Json> Operate(const Json& request);

 private:
  absl::StatusOr<Json> Open(const Json& request);
  absl::StatusOr<Json> Ask(const Json& request);
  absl::StatusOr<Json> Tell(const Json& request);
  absl::StatusOr<Json> Add(const Json& request);

  std::optional<AskTell> search_;  // Empty: not opened.
};

// Serves until the end of input.
absl::Status ServeOptimizer();

}  // namespace rt
