#include "head/journal/append_queue.h"

#include "common/base/status.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

// Batches in one group; the loop has few in flight anyway.
constexpr size_t kGroupMax = 16;

}  // namespace

void AppendQueue::Start() {
  thread_ = std::thread([this] { Run(); });
}

void AppendQueue::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AppendQueue::Push(Batch batch, Journal::Done done) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(batch), std::move(done)});
  }
  changed_.notify_one();
}

absl::Status AppendQueue::Commit(const std::vector<Work>& group) {
  RT_RETURN_IF_ERROR(FailAt("head.journal.before_write"));
  return options_.commit(group);
}

void AppendQueue::Run() {
  absl::Status failure;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto ready = [this] { return stopping_ || !queue_.empty(); };
    const bool is_idle = !changed_.wait_for(lock, options_.rest_after, ready);
    if (!is_idle && queue_.empty()) return;  // Stopping.
    std::vector<Work> group;
    while (!queue_.empty() && group.size() < kGroupMax) {
      group.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    lock.unlock();
    if (!group.empty() && failure.ok()) failure = Commit(group);
    for (Work& work : group) work.done(failure);
    if (failure.ok()) failure = options_.rest(is_idle);
    lock.lock();
  }
}

}  // namespace rt
