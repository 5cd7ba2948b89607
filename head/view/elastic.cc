// Elastic trials for people: what the policy gives them, and their ranks over time.
#include <map>

#include "common/base/strings.h"
#include "head/core/owner_policy.h"
#include "head/view/parts.h"

namespace rt {
namespace {

// Changes of the sum that `exp show` has, the newest.
constexpr size_t kAllocationKept = 100;

std::string Percent(double ratio) {
  return FormatDouble(std::round(std::max(ratio - 1, 0.0) * 100)) + " %";
}

}  // namespace

const ElasticShare* FindShare(const Core& core, const Owner& owner) {
  const auto found = core.soft.elastic_shares.find(owner);
  if (found == core.soft.elastic_shares.end()) return nullptr;
  return FindLive(core.world.state, found->second.attempt) == nullptr ? nullptr : &found->second;
}

std::string ShareText(const ElasticShare& share) {
  std::string text = "the policy '" + share.policy + "' gives it " + std::to_string(share.ranks);
  if (share.policy == EqualSplit().name())
    return text +
           ", because none of the elastic trials that share these resources has sent a profile yet";
  if (share.speed_up <= 0) return text;
  if (share.ranks > 1)
    text += ", with which it trains " + FormatDouble(std::round(share.speed_up * 100) / 100) +
            " times as fast as with one";
  if (share.speed_up_more > 0)
    text += "; one more would bring " + Percent(share.speed_up_more / share.speed_up);
  return text;
}

Json ElasticOf(const Core& core, const Owner& owner) {
  if (!core.world.index.elastic.contains(owner)) return Json();
  const ElasticShare* share = FindShare(core, owner);
  const JobProfile* profile = FindProfile(core.world.state, owner);
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
  return Json::MakeObject(
      {{"policy", share == nullptr ? Json() : Json(share->policy)},
       {"ranks", share == nullptr ? Json() : Json(share->ranks)},
       {"speed_up", share == nullptr ? Json() : known(share->speed_up)},
       {"speed_up_more", share == nullptr ? Json() : known(share->speed_up_more)},
       {"measured_at", TimeOrNull(profile == nullptr ? 0 : profile->at)},
       {"ranks_measured", Json(profile == nullptr ? 0 : profile->profile.MostRanks())},
       {"progress", profile == nullptr ? Json() : Json(profile->profile.progress)},
       {"total", profile == nullptr ? Json() : known(profile->profile.total)}});
}

Json AllocationOf(const Experiment& experiment) {
  std::map<Millis, int64_t> changes;
  for (const Trial& trial : experiment.trials)
    for (const Attempt& attempt : trial.runs.attempts) {
      const auto ranks = static_cast<int64_t>(attempt.members.size());
      changes[attempt.placed_at] += ranks;
      if (attempt.ended_at != 0) changes[attempt.ended_at] -= ranks;
    }
  Json list = Json::MakeArray();
  size_t skipped = changes.size() > kAllocationKept ? changes.size() - kAllocationKept : 0;
  int64_t ranks = 0;
  for (const auto& [at, change] : changes) {
    ranks += change;
    if (skipped > 0) --skipped;
    else if (change != 0)
      list.Append(Json::MakeObject({{"at", TimeOrNull(at)}, {"ranks", Json(ranks)}}));
  }
  return list;
}

}  // namespace rt
