// ClientLease ends a cluster whose client has vanished (docs/adr/0032). While work is open, or a
// client renews its lease, nothing happens; with `stops_work` open work does not count, and is
// stopped. When neither was so for the lease, the pools shrink to nothing: their machines go as
// idle ones do. After `keep` more the whole cluster ends. A client
// that comes back, or new work, undoes the first step. A thread of its own looks; the time at which
// the client was missed is in a file, so that a head that starts anew does not begin to count
// again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/time.h"
#include "common/spec/pool.h"

namespace rt {

class HeadLoop;

struct LeaseRules {
  Millis lease = 0;  // 0: the cluster stays up without a client.
  Millis keep = 0;
  bool stops_work = false;
  std::string end_file;  // Absolute: who finds it shuts the machine down. Empty: nobody does.
};

class ClientLease {
 public:
  struct Acts {
    std::function<void()> stop_work;  // Does not wait for it.
    std::function<void()> end;        // Called once.
  };
  // `pools`: as the core has them. `record`: a file. The acts are called on this object's thread.
  ClientLease(HeadLoop& loop, LeaseRules rules, std::vector<PoolSpec> pools, std::string record,
              Acts acts);
  ~ClientLease();
  ClientLease(const ClientLease&) = delete;
  ClientLease& operator=(const ClientLease&) = delete;

  void Renew();  // Thread-safe.
  Millis span() const { return rules_.lease; }
  bool is_over() const { return is_over_; }
  // Idempotent; nothing is posted afterwards.
  void Stop();

 private:
  void Run();
  bool IsWorkOpen();
  void Look(bool is_open);
  void SetMissed(bool is_missed, Millis since, bool is_open);

  HeadLoop& loop_;
  const LeaseRules rules_;
  const std::vector<PoolSpec> pools_;
  const std::string record_;
  const Acts acts_;
  std::atomic<bool> is_over_ = false;
  bool is_missed_ = false;  // Of the thread: the client is gone, and the work is over or stopped.
  std::mutex mutex_;        // Guards what follows.
  std::condition_variable changed_;
  bool stopping_ = false;
  Millis quiet_since_ = 0;  // On the steady clock: since then no work, and no client.
  std::thread thread_;      // The last member.
};

}  // namespace rt
