// Which gpu of a machine is to blame when the all-reduce over all of them was wrong or too slow:
// each gpu reduces with the one before and the one after it, by index, as NCCL's rings do. A
// machine whose gpus are linked in islands is slow between them by its build, so that a gpu is
// blamed only where it differs from the others. No CUDA here.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "worker/gpu/probe/links.h"
#include "worker/gpu/probe/report.h"

namespace rt::probe {

// What the all-reduce of two gpus found, by index. Their sums were wrong, or it failed: 0.
using MeasureGpus = std::function<double(int gpu, int other)>;

// Whether the pairs can tell more than the all-reduce over all gpus did.
bool HasPairsToBlame(const Report& report, double min_bus_gbps);

// Measures the pairs; those of one round at once, each in a thread of its own.
std::vector<LinkRate> MeasurePairs(int gpus, const MeasureGpus& measure);

// Gives a fault to the gpus that are to blame: one whose pairs are both slow or wrong, unless most
// are; or both gpus of the one pair that is. Nothing changes where no part differs from the others.
void BlameGpus(const std::vector<LinkRate>& rates, double min_bus_gbps, Report& report);

}  // namespace rt::probe
