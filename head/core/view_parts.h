// Pieces that the read models share.
#pragma once

#include <cmath>
#include <string>

#include "common/base/json.h"
#include "head/core/core.h"

namespace rt {

inline Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
inline Json TimeOrNull(Millis at) { return at == 0 ? Json() : Json(FormatTime(at)); }
inline Json ParsedOrNull(const std::string& text) {
  auto json = Json::Parse(text);
  return json.ok() ? *std::move(json) : Json();
}
// 3.0 -> 3: counters that are whole almost always.
inline Json NumberOrInt(double value) {
  bool whole = value == std::floor(value) && std::abs(value) < 9e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}
inline Json TextsJson(const std::vector<std::string>& texts) {
  Json list = Json::MakeArray();
  for (const std::string& text : texts) list.Append(text);
  return list;
}
inline Json Listing(Json items) {
  return Json::MakeObject({{"schema", 1}, {"items", std::move(items)}, {"next", Json()}});
}
// view_warnings.cc
std::vector<std::string> WarningsOf(const World& world, const Experiment& experiment);
Json AttemptsOf(const State& state, const Runs& runs);
// What the newest attempt that kept something wrote; null when there is none.
Json OutputsOf(const Runs& runs);
// Whether a worker still compares or pushes what the owner wrote.
bool AwaitsOutputs(const Core& core, const Owner& owner, const Runs& runs);
// How many attempts' outputs are on their way; null: not known yet.
Json OutputsPending(const Core& core);
// What its losses cost: gpus, times the seconds from the newest checkpoint before each.
inline double LostGpuSeconds(const ResourceRequest& request, const Trial& trial) {
  int64_t units = 0;
  for (const Resources& bundle : request.bundles) units += bundle.gpu;
  return ToSeconds(trial.runs.lost_for) * static_cast<double>(units) / static_cast<double>(kUnit);
}

// Machines that have not joined yet, as nodes in the state REQUESTED. One whose name a present node
// has is left out: that node is another one, which joined without having been asked for.
std::vector<const Machine*> RequestedMachines(const State& state);
// What the provider last said of the pool, when that was no success; empty otherwise.
std::string TroubleOf(const State& state, const std::string& pool, Millis now);

}  // namespace rt
