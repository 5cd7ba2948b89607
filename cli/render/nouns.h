// The JSON of the head as tables for people: one line per item, or all fields of one item. Pure but
// for the clock behind relative ages.
#pragma once

#include <string>
#include <vector>

#include "cli/invocation.h"
#include "common/base/json.h"

namespace rt {

enum class Noun { kExperiment, kTrial, kJob, kNode, kExecutor, kActor };

// A table, or with --output quiet the ids, one a line.
std::string RenderItems(Noun noun, const std::vector<Json>& items, const Invocation& invocation);
// A line per field, at most 100 columns wide; nested values as JSON, long ones on several lines.
std::string RenderDetails(const Json& item);
std::string RenderStatus(const Json& status, const Invocation& invocation);
// One value as a cell; "-" for null and for nothing.
std::string CellText(const Json* value);
// "RUNNING 3, PENDING 5".
std::string CountsText(const Json* counts);
// Of a status: "498.0 GiB of 500.0 GiB used: nearly full"; "" where there is no quota and nothing
// waits for room.
std::string StoreText(const Json& status);
// Of a status: what is wrong with what this head knows, in a sentence; "" when nothing is.
std::string HistoryText(const Json& status);
bool IsNearlyFull(const Json& store);  // Of a status: its checkpoint_store.
// "2 min ago" for an ISO time; "-" for null.
std::string AgeText(const Json* time);

}  // namespace rt
