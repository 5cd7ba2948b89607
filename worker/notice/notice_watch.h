// Asks the sources of notices, each on a thread of its own, and says what follows from all of them:
// the notice with the earliest deadline, or none. A source that fails is said once in the log and
// keeps its last word. A notice whose deadline passed limits::kNoticeGrace ago was a false alarm.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/notice/notice_source.h"

namespace rt::worker {

struct NoticeEvents {
  // Called in order, from the sources' threads.
  std::function<void(const std::optional<Notice>&)> on_change;
  std::function<bool()> is_idle;  // Nothing runs here: notices may be acknowledged.
};

class NoticeWatch {
 public:
  NoticeWatch(std::vector<std::unique_ptr<NoticeSource>> sources, NoticeEvents events);
  ~NoticeWatch();  // Waits for looks under way.
  void Start();
  void Stop();  // Does not wait for them.

 private:
  struct Watched {
    std::unique_ptr<NoticeSource> source;
    std::optional<Notice> said;
    bool fails = false;  // Its newest look did.
    bool warned = false;
    std::thread thread;
  };
  void Run(Watched& watched);
  void LookOnce(Watched& watched);
  void Complain(Watched& watched, const absl::Status& why);
  void Merge();

  std::vector<Watched> watched_;
  const NoticeEvents events_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::optional<Notice> current_;
};

// The one that comes first of those that stand at `now`.
std::optional<Notice> FirstNotice(const std::vector<std::optional<Notice>>& said, Millis now);

}  // namespace rt::worker
