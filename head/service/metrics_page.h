// What Prometheus reads: the state as a page of metrics, in its text format 0.0.4. Pure. No label
// holds a trial's id: the number of series follows the number of experiments and nodes.
#pragma once

#include <map>
#include <string>

#include "common/rpc/port_listener.h"
#include "head/view/view.h"

namespace rt {

std::string MetricsPage(const Core& core, const HeadFacts& facts);
// Its part about the head's ports, by their names.
std::string PortMetrics(const std::map<std::string, PortCounters>& ports);

}  // namespace rt
