#include "worker/session/gpu_rows.h"

namespace rt::worker {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

}  // namespace

void GpuRows::AddTo(Json& metrics, const GpuUse& use) {
  if (use.samples <= last_.samples || !metrics.is_object() || metrics.Find("gpu") != nullptr)
    return;
  const auto all = static_cast<double>(use.samples), before = static_cast<double>(last_.samples);
  const auto since = [&](double GpuUse::*mean) {
    return (use.*mean * all - last_.*mean * before) / (all - before);
  };
  metrics.Set("gpu", Json::MakeObject({{"utilisation_percent", since(&GpuUse::utilisation_mean)},
                                       {"memory_used_gib", since(&GpuUse::memory_mean) / kGiB},
                                       {"power_w", since(&GpuUse::power_mean)}}));
  last_ = use;
}

}  // namespace rt::worker
