// What trials and nodes are called, in launches, result files and messages. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "head/core/core.h"

namespace rt {

std::string TrialName(const Experiment& experiment, const ExperimentIndex& index, uint32_t number);
// Absolute: where the sinks write its files.
std::string TrialDirectory(const Experiment& experiment, const ExperimentIndex& index,
                           uint32_t number);
// Interface names: "READY", "DRAINING", …
const char* NodeStateName(const Core& core, const Node& node);

}  // namespace rt
