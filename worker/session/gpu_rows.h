// What the gpus of an attempt did since its previous row, as metrics of the next one: an experiment
// asks for that with RT_GPU_METRICS=1 in its env, and finds the values wherever its metrics are
// (TensorBoard, CSV, rt trial show). Not thread-safe.
#pragma once

#include "common/base/json.h"
#include "common/spec/gpu_facts.h"

namespace rt::worker {

inline constexpr char kGpuMetrics[] = "RT_GPU_METRICS";  // "1": rows have them.

class GpuRows {
 public:
  // Adds "gpu": {"utilisation_percent", "memory_used_gib", "power_w"}, means over the attempt's
  // gpus, unless the row has a "gpu" of its own or no sample was taken since the previous row.
  // `use`: that of the attempt so far.
  void AddTo(Json& metrics, const GpuUse& use);

 private:
  GpuUse last_;
};

}  // namespace rt::worker
