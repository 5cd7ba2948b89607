// Fetches the logs of attempts from machines that are about to go, so that people can read them
// afterwards: from a node that drains as soon as an attempt there has ended, from an idle one
// before it is released (Soft::leaving waits for that, for a while). A thread of its own; it reads
// through the relays by which people read logs, one log at a time.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "head/loop/head_loop.h"
#include "head/service/fetched_logs.h"
#include "head/service/log_hub.h"

namespace rt {

class LogFetcher {
 public:
  LogFetcher(HeadLoop& loop, LogHub& hub, FetchedLogs& logs);
  ~LogFetcher();
  LogFetcher(const LogFetcher&) = delete;
  LogFetcher& operator=(const LogFetcher&) = delete;

 private:
  void Run();
  bool Sleep(Millis span);  // False: the head is ending.
  bool FetchAll(NodeId node, const std::vector<Fence>& fences);
  std::optional<FetchedLog> Fetch(NodeId node, const Fence& fence, const char* stream);

  struct Bell {  // A relay may ring it while this object goes.
    std::mutex mutex;
    std::condition_variable rung;
    bool stopping = false;
  };

  HeadLoop& loop_;
  LogHub& hub_;
  FetchedLogs& logs_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::thread thread_;  // The last member.
};

}  // namespace rt
