#include "worker/session/profile_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/limits_elastic.h"
#include "common/base/status.h"

namespace rt::worker {
namespace {

// A step has some time beside its synchronisation.
constexpr double kSyncShareMax = 0.999;
constexpr int64_t kCountMax = 1'000'000'000;

absl::StatusOr<double> ReadNumber(const Json& from, const char* key) {
  const Json* value = from.Find(key);
  if (value == nullptr || !value->is_number())
    return Invalid(std::string("a profile needs a number '") + key + "'");
  return value->AsDouble();
}

absl::StatusOr<uint32_t> ReadCount(const Json& from, const char* key, int64_t least) {
  RT_ASSIGN_OR_RETURN(const double value, ReadNumber(from, key));
  if (!(value >= static_cast<double>(least) && value <= kCountMax) || std::trunc(value) != value)
    return Invalid(std::string("a profile's '") + key + "' must be a whole number from " +
                   std::to_string(least));
  return static_cast<uint32_t>(value);
}

// [mean, variance]
absl::StatusOr<std::pair<double, double>> ReadPair(const Json& from, const char* key) {
  const Json* pair = from.Find(key);
  const bool is_pair = pair != nullptr && pair->is_array() && pair->array().size() == 2 &&
                       pair->array()[0].is_number() && pair->array()[1].is_number();
  if (!is_pair)
    return Invalid(std::string("a point of a profile needs '") + key + "': [mean, variance]");
  return std::pair(pair->array()[0].AsDouble(), pair->array()[1].AsDouble());
}

absl::StatusOr<StepPoint> ReadPoint(const Json& json) {
  if (!json.is_object()) return Invalid("a point of a profile must be an object");
  StepPoint point;
  RT_ASSIGN_OR_RETURN(point.nodes, ReadCount(json, "nodes", 1));
  RT_ASSIGN_OR_RETURN(point.ranks, ReadCount(json, "ranks", 1));
  RT_ASSIGN_OR_RETURN(point.local_batch, ReadCount(json, "local", 1));
  RT_ASSIGN_OR_RETURN(point.accumulation, ReadCount(json, "accum", 0));
  RT_ASSIGN_OR_RETURN(point.count, ReadCount(json, "count", 1));
  RT_ASSIGN_OR_RETURN(const auto step, ReadPair(json, "step"));
  RT_ASSIGN_OR_RETURN(const auto sync, ReadPair(json, "sync"));
  point.gpu_type = json.GetString("gpu_type").substr(0, limits::kGpuTypeBytesMax);
  point.step_mean = step.first;
  point.step_variance = step.second;
  point.sync_mean = std::min(sync.first, kSyncShareMax * step.first);
  point.sync_variance = sync.second;
  return point;
}

}  // namespace

absl::StatusOr<ElasticProfile> ReadProfile(const Json& elastic) {
  if (!elastic.is_object()) return Invalid("a profile needs an object 'elastic'");
  ElasticProfile profile;
  RT_ASSIGN_OR_RETURN(profile.batches.initial, ReadNumber(elastic, "initial_batch"));
  RT_ASSIGN_OR_RETURN(profile.batches.most, ReadNumber(elastic, "max_batch"));
  profile.batches.accumulates = elastic.GetBool("accumulation");
  const Json* bounds = elastic.Find("local_bounds");
  if (bounds != nullptr && !bounds->is_null()) {
    RT_ASSIGN_OR_RETURN(const auto pair, ReadPair(elastic, "local_bounds"));
    const auto is_count = [](double value) { return value >= 1 && value <= kCountMax; };
    if (!is_count(pair.first) || !is_count(pair.second))
      return Invalid("a profile's 'local_bounds' must be two numbers from 1, or null");
    profile.batches.local_min = static_cast<uint32_t>(pair.first);
    profile.batches.local_max = static_cast<uint32_t>(pair.second);
  }
  RT_ASSIGN_OR_RETURN(profile.progress, ReadNumber(elastic, "progress"));
  const Json* total = elastic.Find("total");
  if (total != nullptr && !total->is_null()) {
    RT_ASSIGN_OR_RETURN(profile.total, ReadNumber(elastic, "total"));
  }
  RT_ASSIGN_OR_RETURN(profile.noise.squared_norm, ReadNumber(elastic, "sqr"));
  RT_ASSIGN_OR_RETURN(profile.noise.variance, ReadNumber(elastic, "var"));
  RT_ASSIGN_OR_RETURN(profile.noise_weight, ReadNumber(elastic, "noise_weight"));
  const Json* points = elastic.Find("points");
  if (points == nullptr || !points->is_array() || points->array().empty() ||
      points->array().size() > limits::kProfilePointsMax)
    return Invalid("a profile needs 1 to " + std::to_string(limits::kProfilePointsMax) +
                   " 'points'");
  std::vector<StepPoint> read;
  for (const Json& one : points->array()) {
    RT_ASSIGN_OR_RETURN(StepPoint point, ReadPoint(one));
    if (!IsValid(point)) return Invalid("a point of a profile has times that cannot be measured");
    read.push_back(std::move(point));
  }
  MergePoints(profile.points, read, limits::kProfilePointsMax);
  RT_RETURN_IF_ERROR(CheckProfile(profile));
  return profile;
}

absl::Status ProfileQueue::AddLine(const Json& line) {
  const int64_t seq = line.GetInt("seq");
  if (seq <= 0) return Invalid("a profile needs its number 'seq', from 1");
  const Json* elastic = line.Find("elastic");
  RT_ASSIGN_OR_RETURN(const ElasticProfile profile,
                      ReadProfile(elastic == nullptr ? Json() : *elastic));
  Add(static_cast<uint64_t>(seq), profile);
  return absl::OkStatus();
}

bool ProfileQueue::NoteDropped() {
  std::lock_guard lock(mutex_);
  return !std::exchange(has_dropped_, true);
}

void ProfileQueue::Add(uint64_t seq, const ElasticProfile& measured) {
  std::lock_guard lock(mutex_);
  if (seq <= newest_) return;
  newest_ = seq;
  if (!fresh_.has_value()) fresh_.emplace();
  fresh_->seq = seq;
  MergeProfile(fresh_->profile, measured, limits::kProfilePointsMax);
}

std::optional<PendingProfile> ProfileQueue::Next() {
  std::lock_guard lock(mutex_);
  if (!sent_.has_value()) sent_ = std::exchange(fresh_, std::nullopt);
  return sent_;
}

void ProfileQueue::NoteRecorded(uint64_t seq) {
  std::lock_guard lock(mutex_);
  if (sent_.has_value() && seq >= sent_->seq) sent_.reset();
}

}  // namespace rt::worker
