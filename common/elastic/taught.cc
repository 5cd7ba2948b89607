#include "common/elastic/taught.h"

#include <algorithm>
#include <cmath>

namespace rt {
namespace {

double SlownessIn(const Taught& taught, const ElasticProfile& profile) {
  if (taught.speed == nullptr) return 1;
  const double slowness = SlownessOf(taught.memory, *taught.speed, profile.points);
  return std::isfinite(slowness) && slowness > 0 ? slowness : 1;
}

}  // namespace

Taught TeachClass(const std::vector<ClassRecord>& records) {
  Taught taught;
  for (const ClassRecord& record : records) {
    const ElasticProfile& profile = record.profile;
    if (profile.batches.initial != records.back().profile.batches.initial) continue;
    if (profile.points.empty()) continue;
    taught.memory.Learn(profile, SlownessIn(taught, profile));
    taught.speed = std::make_unique<Speed>(taught.memory.batches, taught.memory.points);
    if (record.has_completed)
      taught.memory.LearnEnd(profile.total > 0 ? profile.total : profile.progress);
  }
  return taught;
}

void ViewJob(const Taught& taught, const ElasticProfile* own, ElasticJob& job) {
  job.speed = taught.speed.get();
  if (job.speed == nullptr) {
    job.ranks_measured = job.ranks_max;
    return;
  }
  const ClassMemory& memory = taught.memory;
  job.ranks_measured = memory.MostRanks();
  if (memory.has_noise) job.noise = memory.noise;
  const bool counts = own != nullptr && own->batches.initial == memory.batches.initial;
  if (counts) {
    if (own->noise_weight > 0) job.noise = own->noise;
    job.progress = own->progress;
    job.total = own->total;
    job.slowness = SlownessIn(taught, *own);
    job.ranks_measured = std::max(job.ranks_measured, own->MostRanks());
  }
  if (!(job.total > 0))
    job.total = memory.ExpectedTotal(job.progress, job.speed->Rate(job.noise, 1, 1));
}

}  // namespace rt
