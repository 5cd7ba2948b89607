// What Prometheus reads: the state as a page of metrics, in its text format 0.0.4. Pure. No label
// holds a trial's id: the number of series follows the number of experiments and nodes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/port_listener.h"
#include "head/view/view.h"

namespace rt {

// Without the gpus, of which there may be thousands.
std::string MetricsPage(const Core& core, const HeadFacts& facts);
// What the page says of gpus, copied on the core thread, so that its text is written on another.
struct GpuMetrics {
  struct OfNode {
    std::string node;
    std::vector<GpuSample> samples;
    std::vector<std::pair<std::string, bool>> faults;  // By uuid: whether it has one.
  };
  std::vector<OfNode> nodes;

  static GpuMetrics Of(const Core& core);
  std::string Text() const;
};
// Its part about the head's ports, by their names.
std::string PortMetrics(const std::map<std::string, PortCounters>& ports);

}  // namespace rt
