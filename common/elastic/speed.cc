#include "common/elastic/speed.h"

#include <algorithm>
#include <cmath>

namespace rt {
namespace {

constexpr int kCandidates = 50;
constexpr double kRounding = 1e-8;  // What is that much above an integer is that integer.

uint32_t CeilOf(double value) { return static_cast<uint32_t>(std::ceil(value - kRounding)); }

}  // namespace

std::vector<BatchCandidate> BatchCandidates(const BatchLimits& limits, uint32_t ranks) {
  const double local_min = std::max<uint32_t>(limits.local_min, 1);
  const double local_max = limits.local_max == 0 ? limits.most : limits.local_max;
  const double least = std::max(limits.initial, local_min * ranks);
  std::vector<BatchCandidate> candidates;
  if (least > limits.most) return candidates;
  for (int i = 0; i < kCandidates; ++i) {
    const double share = static_cast<double>(i) / (kCandidates - 1);
    double total = std::exp(std::log(least) + std::log(limits.most / least) * share);
    if (i == 0) total = least;
    if (i == kCandidates - 1) total = limits.most;
    const double local = total / ranks;
    uint32_t accumulation = 0;
    if (limits.accumulates) {
      accumulation = std::max(CeilOf(local / local_max), 1u) - 1;
      if (ranks == 1 && local > limits.initial + kRounding)
        accumulation = std::max(accumulation, 1u);
    }
    const bool is_blind = !limits.accumulates && ranks == 1;  // It cannot tell the noise.
    const uint32_t batch = CeilOf((is_blind ? limits.initial : local) / (accumulation + 1));
    if (batch < local_min || batch > local_max) continue;
    const double scale = static_cast<double>(ranks) * batch * (accumulation + 1) / limits.initial;
    const bool is_new = candidates.empty() || candidates.back().local_batch != batch ||
                        candidates.back().accumulation != accumulation;
    if (is_new) candidates.push_back({scale, batch, accumulation});
  }
  return candidates;
}

const std::vector<Speed::Timed>& Speed::TimedFor(uint32_t nodes, uint32_t ranks) const {
  const auto [entry, is_new] = cache_.try_emplace({nodes, ranks});
  if (!is_new) return entry->second;
  const std::vector<BatchCandidate> candidates = BatchCandidates(limits_, ranks);
  std::vector<double> batches;
  for (const BatchCandidate& one : candidates) batches.push_back(one.local_batch);
  const std::vector<StepTimes::Times> times = times_.Of(nodes, ranks, batches);
  for (size_t i = 0; i < candidates.size(); ++i)
    entry->second.push_back(
        {candidates[i], candidates[i].accumulation * times[i].gradient_s + times[i].step_s});
  return entry->second;
}

BatchChoice Speed::Choose(const GradientNoise& noise, uint32_t nodes, uint32_t ranks) const {
  BatchChoice choice;
  const Timed* best = nullptr;
  double most = 0;  // Of the rates, which are in proportion to these: one division for each.
  for (const Timed& one : TimedFor(nodes, ranks)) {
    const double scale = one.batch.scale;
    const double relative = scale / ((noise.variance + noise.squared_norm * scale) * one.seconds);
    if (!(relative > most)) continue;
    most = relative;
    best = &one;
  }
  if (best == nullptr) return choice;
  choice.rate = noise.Gain(best->batch.scale) / best->seconds;
  choice.local_batch = best->batch.local_batch;
  choice.accumulation = best->batch.accumulation;
  return choice;
}

}  // namespace rt
