#include "head/core/profiles.h"

#include <algorithm>
#include <optional>

#include "common/base/limits_elastic.h"
#include "common/base/rng.h"
#include "common/base/strings.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

auto PlaceOf(const std::vector<JobProfile>& profiles, const Owner& owner) {
  return std::lower_bound(
      profiles.begin(), profiles.end(), owner,
      [](const JobProfile& one, const Owner& wanted) { return one.attempt.owner < wanted; });
}

// The hash of a class is journalled, and later releases compare it: it keeps its value, which is
// not that of a Fingerprint.
void Mix(uint64_t& hash, const std::string& text) {
  hash = Mix64(hash ^ text.size());
  for (unsigned char c : text) hash = Mix64(hash ^ c);
}

bool IsKnownShape(const std::vector<StepPoint>& points, const StepPoint& point) {
  return std::any_of(points.begin(), points.end(),
                     [&](const StepPoint& one) { return one.shape() == point.shape(); });
}

// Which profiles are dropped when this owner's is recorded, all of them of owners that are over: of
// its class the oldest beyond those that a class keeps, and the oldest of all where there are too
// many. nullopt: the others leave no place for it, since no profile of a job that may still run is
// dropped for another job.
std::optional<std::vector<Owner>> ForgottenFor(const State& state, const Owner& owner,
                                               const std::string& name) {
  std::vector<const JobProfile*> over;
  size_t others = 0, of_class = 0;
  for (const JobProfile& one : state.profiles) {
    if (one.attempt.owner == owner) continue;
    ++others;
    if (!IsOver(state, one.attempt.owner)) continue;
    over.push_back(&one);
    if (one.job_class == name) ++of_class;
  }
  std::stable_sort(over.begin(), over.end(),
                   [](const JobProfile* a, const JobProfile* b) { return a->at < b->at; });
  std::vector<Owner> forgotten;
  for (const JobProfile*& one : over) {
    if (of_class <= limits::kClassProfilesEndedMax) break;
    if (one->job_class != name) continue;
    forgotten.push_back(one->attempt.owner);
    --of_class;
    one = nullptr;
  }
  for (const JobProfile* one : over) {
    if (others - forgotten.size() < limits::kProfilesMax) break;
    if (one != nullptr) forgotten.push_back(one->attempt.owner);
  }
  if (others - forgotten.size() >= limits::kProfilesMax) return std::nullopt;
  return forgotten;
}

// Whether the report is news of a live elastic attempt, from the node of its rank 0.
bool IsNews(const Draft& draft, NodeId node, const ProfileReport& report) {
  const World& world = draft.core.world;
  const AttemptId& id = report.fence.attempt;
  const Attempt* live = FindLive(world.state, id);
  if (live == nullptr || report.fence.rank != 0 || live->members.front().node != node) return false;
  if (!world.index.elastic.contains(id.owner)) return false;
  const JobProfile* known = FindProfile(world.state, id.owner);
  if (known == nullptr) return true;
  if (known->attempt == id && report.seq <= known->seq) return false;
  return draft.now >= known->at + draft.core.soft.elastic_interval;
}

}  // namespace

const JobProfile* FindProfile(const State& state, const Owner& owner) {
  const auto place = PlaceOf(state.profiles, owner);
  return place != state.profiles.end() && place->attempt.owner == owner ? &*place : nullptr;
}

std::string JobClassOf(const World& world, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  uint64_t hash = 0;
  if (experiment != nullptr) {
    for (const std::string& word : experiment->spec.command) Mix(hash, word);
    for (const InputFile& input : experiment->spec.inputs) Mix(hash, input.manifest);
  }
  Mix(hash, Describe(RequestOf(world, owner).one()));
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(hash >> shift);
  return ToHex(bytes);
}

void TakeProfiles(Draft& draft, const input::Sync& sync) {
  for (const ProfileReport& report : sync.profiles) {
    if (!IsNews(draft, sync.node, report)) continue;
    const Owner& owner = report.fence.attempt.owner;
    event::ProfileRecorded recorded{.attempt = report.fence.attempt,
                                    .seq = report.seq,
                                    .job_class = JobClassOf(draft.core.world, owner)};
    auto forgotten = ForgottenFor(draft.state(), owner, recorded.job_class);
    if (!forgotten.has_value()) continue;  // Its worker sends it again.
    recorded.forgotten = *std::move(forgotten);
    const JobProfile* known = FindProfile(draft.state(), owner);
    // What was measured with another initial batch counts in other units.
    const bool continues = known != nullptr && known->job_class == recorded.job_class &&
                           known->profile.batches.initial == report.profile.batches.initial;
    const std::vector<StepPoint> before =
        continues ? known->profile.points : std::vector<StepPoint>();
    if (continues) recorded.profile = known->profile;
    MergeProfile(recorded.profile, report.profile, limits::kProfilePointsMax);
    std::vector<StepPoint>& points = recorded.profile.points;
    const bool has_dropped = std::any_of(before.begin(), before.end(), [&](const StepPoint& one) {
      return !IsKnownShape(points, one);
    });
    recorded.whole = !continues || has_dropped;
    if (!recorded.whole)
      std::erase_if(
          points, [&](const StepPoint& one) { return !IsKnownShape(report.profile.points, one); });
    draft.Emit(std::move(recorded));
  }
}

void ApplyProfile(World& world, const event::ProfileRecorded& e, Millis at) {
  std::vector<JobProfile>& all = world.state.profiles;
  const size_t place = static_cast<size_t>(PlaceOf(all, e.attempt.owner) - all.cbegin());
  const bool is_known = place < all.size() && all[place].attempt.owner == e.attempt.owner;
  if (!is_known) all.insert(all.begin() + static_cast<std::ptrdiff_t>(place), JobProfile());
  JobProfile& one = all[place];
  if (one.attempt != e.attempt) ++world.index.profiled_attempts;
  std::vector<StepPoint> points = std::move(one.profile.points);
  one.attempt = e.attempt;
  one.seq = e.seq;
  one.job_class = e.job_class;
  one.at = at;
  one.profile = e.profile;
  if (!e.whole) {
    for (const StepPoint& point : e.profile.points) {
      const auto known = std::lower_bound(
          points.begin(), points.end(), point,
          [](const StepPoint& a, const StepPoint& b) { return a.shape() < b.shape(); });
      if (known != points.end() && known->shape() == point.shape()) *known = point;
      else points.insert(known, point);
    }
    one.profile.points = std::move(points);
  }
  for (const Owner& owner : e.forgotten)
    std::erase_if(all, [&](const JobProfile& other) { return other.attempt.owner == owner; });
}

ElasticMemory RecallProfiles(const State& state) {
  std::vector<const JobProfile*> order;
  for (const JobProfile& one : state.profiles) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](const JobProfile* a, const JobProfile* b) { return a->at < b->at; });
  ElasticMemory memory;
  for (const JobProfile* one : order) {
    const Owner& owner = one->attempt.owner;
    const Trial* trial = ReportingTrial(state, owner);
    const bool has_completed = trial != nullptr && trial->end == TrialEnd::kCompleted;
    memory.own[owner] = one->profile;
    std::vector<ElasticMemory::Member>& members = memory.classes[one->job_class];
    members.push_back({owner, has_completed});
    if (members.size() > limits::kClassProfilesMax) members.erase(members.begin());
  }
  return memory;
}

std::vector<ClassRecord> ElasticMemory::RecordsOf(const std::string& job_class) const {
  std::vector<ClassRecord> records;
  const auto members = classes.find(job_class);
  if (members == classes.end()) return records;
  for (const Member& member : members->second)
    records.push_back({own.at(member.owner), member.has_completed});
  return records;
}

}  // namespace rt
