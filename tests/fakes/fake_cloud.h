// A cloud for tests: deterministic, in memory, with a clock that the test turns. It fails by class
// when told to, loses answers before or after their effect, and lists late. Used by one thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/provider/node_provider.h"

namespace rt::fakes {

class FakeCloud final : public NodeProvider {
 public:
  struct Instance {
    std::string id;
    std::string cluster;
    std::string pool;
    Millis created_at = 0;
    Millis gone_at = 0;  // 0: it is there.
  };
  enum class Loss { kBeforeEffect, kAfterEffect };

  // `now`: of the test's clock. A List shows what was there `lag` ms ago.
  FakeCloud(std::string cluster, std::function<Millis()> now, Millis lag = 0)
      : cluster_(std::move(cluster)), now_(std::move(now)), lag_(lag) {}

  void FailNextCreate(ProviderError error) { create_errors_.push_back(error); }
  void LoseNextAnswer(Loss loss) { losses_.push_back(loss); }  // Of the next Create or Terminate.
  void LimitTo(size_t machines) { most_ = machines; }
  // What all zones together have of a pool's kind of machine.
  void LimitPool(const std::string& pool, size_t machines) { most_of_[pool] = machines; }
  void Heal() {  // What was told to fail and has not yet will not.
    create_errors_.clear();
    losses_.clear();
    most_ = 1'000'000;
    most_of_.clear();
  }
  // A token that is known is answered with its machine before anything can fail, as EC2 does.
  void AnswerTokensFirst() { tokens_first_ = true; }
  // Somebody else's, in the same account.
  void AddForeign(const std::string& id) { all_[id] = {.id = id, .cluster = "other"}; }
  // Without a call: as a spot market or a person with a console does.
  void Vanish(const std::string& id) { all_.at(id).gone_at = now_(); }

  absl::StatusOr<std::vector<MadeMachine>> Create(const CreateCall& call) override {
    ++creates;
    const bool is_lost = !losses_.empty();
    const Loss loss = is_lost ? Take(losses_) : Loss::kBeforeEffect;
    if (is_lost && loss == Loss::kBeforeEffect) return NoAnswer();
    const bool is_known = tokens_first_ && KnowsAll(call);
    if (!create_errors_.empty() && !is_known)
      return MakeProviderError(Take(create_errors_), "as the test asked");
    std::vector<MadeMachine> made;
    for (const WantedMachine& wanted : call.machines) {
      const auto known = by_number_.find(wanted.number);
      if (known != by_number_.end()) {  // The token is known, also when the machine is gone.
        made.push_back({wanted.number, known->second, call.pool});
        continue;
      }
      if (CountThere() >= most_ || IsFull(call.pool)) break;
      const std::string id = "i-" + std::to_string(++last_);
      by_number_[wanted.number] = id;
      all_[id] = {.id = id, .cluster = cluster_, .pool = call.pool, .created_at = now_()};
      made.push_back({wanted.number, id, call.pool});
    }
    if (is_lost) return NoAnswer();
    if (made.empty()) return MakeProviderError(ProviderError::kCapacity, "the cloud is full");
    return made;
  }

  absl::StatusOr<std::vector<MadeMachine>> List() override {
    std::vector<MadeMachine> machines;
    const Millis then = now_() - lag_;
    for (const auto& [number, id] : by_number_) {
      const Instance& one = all_.at(id);
      const bool is_shown = one.created_at <= then && (one.gone_at == 0 || one.gone_at > then);
      if (is_shown) machines.push_back({number, id, one.pool});
    }
    return machines;
  }

  absl::Status Terminate(const std::vector<std::string>& ids) override {
    for (const std::string& id : ids)
      if (all_.contains(id) && all_.at(id).cluster != cluster_)
        return MakeProviderError(ProviderError::kNotOurs, "'" + id + "' is another cluster's");
    const bool is_lost = !losses_.empty();
    const Loss loss = is_lost ? Take(losses_) : Loss::kBeforeEffect;
    if (is_lost && loss == Loss::kBeforeEffect) return NoAnswer();
    for (const std::string& id : ids)
      if (all_.contains(id) && all_.at(id).gone_at == 0) all_.at(id).gone_at = now_();
    return is_lost ? NoAnswer() : absl::OkStatus();
  }

  Millis list_lag() const override { return lag_; }
  void EndAll() override {
    for (auto& [id, one] : all_)
      if (one.cluster == cluster_ && one.gone_at == 0) one.gone_at = now_();
  }
  bool Disowns(const std::string&) const override { return false; }

  // What is really there of this cluster.
  std::vector<std::string> There() const {
    std::vector<std::string> ids;
    for (const auto& [id, one] : all_)
      if (one.cluster == cluster_ && one.gone_at == 0) ids.push_back(id);
    return ids;
  }
  const std::map<uint64_t, std::string>& made() const { return by_number_; }  // Ids by number.
  const std::string& PoolOf(const std::string& id) const { return all_.at(id).pool; }
  bool IsThere(const std::string& id) const {
    return all_.contains(id) && all_.at(id).gone_at == 0;
  }
  size_t creates = 0;  // Calls.

 private:
  template <class T>
  static T Take(std::deque<T>& queue) {
    T first = queue.front();
    queue.pop_front();
    return first;
  }
  static absl::Status NoAnswer() { return absl::DeadlineExceededError("no answer"); }
  bool KnowsAll(const CreateCall& call) const {
    for (const WantedMachine& wanted : call.machines)
      if (!by_number_.contains(wanted.number)) return false;
    return true;
  }
  size_t CountThere() const { return There().size(); }
  bool IsFull(const std::string& pool) const {
    const auto most = most_of_.find(pool);
    if (most == most_of_.end()) return false;
    size_t count = 0;
    for (const auto& [id, one] : all_)
      count += one.pool == pool && one.cluster == cluster_ && one.gone_at == 0 ? 1 : 0;
    return count >= most->second;
  }

  const std::string cluster_;
  const std::function<Millis()> now_;
  const Millis lag_;
  size_t most_ = 1'000'000;
  std::map<std::string, size_t> most_of_;
  bool tokens_first_ = false;
  uint64_t last_ = 0;
  std::map<uint64_t, std::string> by_number_;
  std::map<std::string, Instance> all_;
  std::deque<ProviderError> create_errors_;
  std::deque<Loss> losses_;
};

}  // namespace rt::fakes
