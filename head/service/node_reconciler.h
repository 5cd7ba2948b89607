// NodeReconciler makes the provider's machines what the state says they should be. A thread of its
// own compares the two when the journal says something about machines, and ten times a second: it
// derives calls from the durable state, makes them on the io pool, and posts what became of them as
// inputs. It remembers nothing that matters: a head
// that starts anew derives the same calls, which may be repeated. For each pool one Create is under
// way at a time, and none follows one whose answer is missing before List has been asked.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "common/provider/node_provider.h"
#include "head/core/pools.h"
#include "head/service/scaling_hooks.h"
#include "head/service/settings.h"

namespace rt {

class NodeReconciler {
 public:
  struct Parts {
    HeadLoop& loop;
    NodeProvider& provider;
    Io io;
    ScalingNews& news;  // Is told what the machines do.
  };
  NodeReconciler(Parts parts, std::vector<PoolSpec> pools);
  ~NodeReconciler();  // Waits for the calls that are under way.
  NodeReconciler(const NodeReconciler&) = delete;
  NodeReconciler& operator=(const NodeReconciler&) = delete;

 private:
  struct Seen {
    ProviderWishes wishes;
    Millis now = 0;  // The head's time.
  };
  void Run();
  bool Look(Seen& seen);
  void Act(const Seen& seen);
  void Start(std::function<void()> job);
  void Post(Input input, std::function<void(bool taken)> settled);
  void Settle(const std::function<void()>& change);
  void List(Millis now);
  void CloseExpired();
  void Create(const CreateWish& wish);
  void Terminate(const std::vector<TerminateWish>& wishes);

  Parts parts_;
  std::map<std::string, PoolSpec> pools_;
  bool has_looked_ = false;  // Of the thread.
  std::mutex mutex_;         // Guards what follows.
  std::condition_variable changed_;
  bool stopping_ = false;
  bool has_news_ = false;  // About machines, since the last comparison.
  size_t jobs_ = 0;  // Under way, until the core has taken their results.
  bool is_listing_ = false;
  Millis listed_at_ = 0;            // By the head's time; 0: not since this head started.
  Millis list_again_at_ = 0;        // After a call that failed.
  bool is_closing_ = false;
  Millis closed_at_ = 0;            // By the head's time; 0: not since this head started.
  std::set<std::string> creating_;  // Pools.
  std::set<std::string> unclear_;   // Pools with a Create whose answer is missing.
  bool is_terminating_ = false;
  Millis terminate_again_at_ = 0;  // After a call that failed.
  Millis now_ = 0;
  Millis first_now_ = 0;
  std::thread thread_;  // The last member.
};

}  // namespace rt
