#include "common/run/io_pool.h"

namespace rt {

IoPool::IoPool(size_t threads, size_t queued_max) : queued_max_(queued_max) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

IoPool::~IoPool() { Stop(); }

bool IoPool::TrySubmit(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= queued_max_) return false;
    queue_.push_back(std::move(job));
  }
  work_.notify_one();
  return true;
}

bool IoPool::Submit(std::function<void()> job) {
  {
    std::unique_lock lock(mutex_);
    space_.wait(lock, [&] { return stopping_ || queue_.size() < queued_max_; });
    if (stopping_) return false;
    queue_.push_back(std::move(job));
  }
  work_.notify_one();
  return true;
}

void IoPool::Drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return queue_.empty() && running_ == 0; });
}

void IoPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  space_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void IoPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> job = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    space_.notify_one();
    job();
    job = nullptr;  // What the job captured dies before Drain returns.
    lock.lock();
    --running_;
    if (queue_.empty() && running_ == 0) idle_.notify_all();
  }
}

}  // namespace rt
