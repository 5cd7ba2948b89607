// What Prometheus reads: the state as a page of metrics, in its text format 0.0.4. Pure. No label
// holds a trial's id: the number of series follows the number of experiments and nodes.
#pragma once

#include <string>

#include "head/core/view.h"

namespace rt {

std::string MetricsPage(const Core& core, const HeadFacts& facts);

}  // namespace rt
