#include "common/cas/read_ahead.h"

#include <algorithm>

namespace rt {

ReadAhead::ReadAhead(BlobSource& source, std::vector<WantedChunk> wanted, size_t threads,
                     Bytes ahead)
    : source_(source), wanted_(std::move(wanted)), ahead_(ahead) {
  for (size_t i = 0; i < std::min(threads, wanted_.size()); ++i)
    threads_.emplace_back([this] { Work(); });
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ReadAhead::MayFetch() const {
  return fetched_ < wanted_.size() && (held_ == 0 || held_ + wanted_[fetched_].size <= ahead_);
}

void ReadAhead::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return end_ || fetched_ == wanted_.size() || MayFetch(); });
    if (end_ || fetched_ == wanted_.size()) return;
    const size_t number = fetched_++;
    held_ += wanted_[number].size;
    if (fetched_ == wanted_.size()) changed_.notify_all();  // The others may end.
    lock.unlock();
    absl::StatusOr<std::string> bytes = source_.GetChunk(wanted_[number].digest);
    if (bytes.ok() && static_cast<Bytes>(bytes->size()) != wanted_[number].size)
      bytes = absl::DataLossError("a chunk has another size than its manifest says");
    lock.lock();
    ready_.emplace(number, std::move(bytes));
    changed_.notify_all();
  }
}

absl::StatusOr<std::string> ReadAhead::Next() {
  std::unique_lock lock(mutex_);
  if (taken_ == wanted_.size()) return absl::OutOfRangeError("every chunk has been taken");
  changed_.wait(lock, [this] { return ready_.contains(taken_); });
  auto next = ready_.extract(taken_);
  held_ -= wanted_[taken_++].size;
  changed_.notify_all();
  return std::move(next.mapped());
}

}  // namespace rt
