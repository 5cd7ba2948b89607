// LeaseRenewer tells the head of a cluster in a cloud that a client waits for it, on a thread of
// its own, as long as this object lives (head/service/client_lease.h). It waits for a cluster that
// is not up yet, and does nothing for any other kind. Failures are silent: the head counts.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cli/client/head_client.h"
#include "cli/client/home.h"

namespace rt {

class LeaseRenewer {
 public:
  LeaseRenewer(const Home& home, std::string cluster);
  ~LeaseRenewer();  // Ends a call that is under way.
  LeaseRenewer(const LeaseRenewer&) = delete;
  LeaseRenewer& operator=(const LeaseRenewer&) = delete;

 private:
  void Run();
  Millis Renew();

  const Home home_;
  const std::string cluster_;
  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  bool stopping_ = false;
  std::shared_ptr<HeadClient> client_;
  std::thread thread_;  // The last member.
};

}  // namespace rt
