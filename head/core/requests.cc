#include "head/core/requests.h"

#include <algorithm>

#include "common/base/status.h"

namespace rt {
namespace {

struct Asked {
  std::string owner;
  std::string spec_text;
  std::string what;  // "job 3".
};

Asked AskedFor(const State& state, const Request& request) {
  if (request.job.value != 0) {
    const Job& job = state.jobs.at(request.job);
    return {job.owner, job.spec_text, "job " + std::to_string(job.id.value)};
  }
  const Experiment& experiment = state.experiments.at(request.experiment);
  return {experiment.owner, experiment.spec_text,
          "experiment " + std::to_string(experiment.id.value)};
}

// No key has a NUL: no other user's key is called so.
std::string OwnSlot(const std::string& owner, const std::string& key) {
  return std::string(1, '\0') + owner + std::string(1, '\0') + key;
}

const Request* FindOwn(const State& state, const std::string& owner, const std::string& key) {
  for (const std::string& slot : {OwnSlot(owner, key), key}) {
    auto found = state.requests.find(slot);
    if (found != state.requests.end() && AskedFor(state, found->second).owner == owner)
      return &found->second;
  }
  return nullptr;
}

Json Sorted(const Json& json) {
  Json sorted = json;
  if (json.is_array())
    for (Json& item : sorted.array()) item = Sorted(item);
  if (json.is_object()) {
    for (auto& [name, value] : sorted.object()) value = Sorted(value);
    std::sort(sorted.object().begin(), sorted.object().end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return sorted;
}

// What of a specification a driver that is run again says again: not the pickled bytes, the
// environment, a name with a date, a seed that it drew and whether the metric is checked.
std::string LastingPart(Json spec) {
  if (!spec.is_object()) return spec.Dump();
  for (const char* name : {"inputs", "env", "cwd", "experiment", "seed", "strict_metric"})
    spec.Erase(name);
  return Sorted(spec).Dump();
}

}  // namespace

absl::StatusOr<const Request*> FindRequest(const State& state, const std::string& owner,
                                           const std::string& key, const Json& spec) {
  if (key.empty()) return nullptr;
  if (key.find('\0') != std::string::npos) return Invalid("a request key contains no NUL");
  const Request* found = FindOwn(state, owner, key);
  if (found == nullptr) return nullptr;
  const Asked before = AskedFor(state, *found);
  // What cannot be read any more was read when it was accepted; it is not compared.
  absl::StatusOr<Json> known = Json::Parse(before.spec_text);
  if (known.ok() && LastingPart(*known) != LastingPart(spec))
    return WithHint(absl::AlreadyExistsError("the request key was used for " + before.what +
                                             ", with another specification"),
                    "choose another key for another request");
  return found;
}

absl::StatusOr<const Experiment*> FindCreated(const State& state, const std::string& owner,
                                              const std::string& key, const Json& spec) {
  RT_ASSIGN_OR_RETURN(const Request* found, FindRequest(state, owner, key, spec));
  if (found == nullptr) return nullptr;
  if (found->experiment.value == 0)
    return absl::AlreadyExistsError("the request key was used for a job");
  return &state.experiments.at(found->experiment);
}

std::string RequestSlot(const State& state, const std::string& owner, const std::string& key) {
  auto found = state.requests.find(key);
  const bool is_free = found == state.requests.end();
  return is_free || AskedFor(state, found->second).owner == owner ? key : OwnSlot(owner, key);
}

}  // namespace rt
