#include "head/service/log_hub.h"

#include <chrono>

namespace rt {
namespace {
// Enough to keep a connection busy, little enough for many readers.
constexpr size_t kRelayBytesMax = 2u << 20;
constexpr size_t kReadersMax = 1'024;
}  // namespace

bool LogRelay::Push(LogPiece piece, std::function<void()> space) {
  bool has_space;
  {
    std::lock_guard lock(mutex_);
    bytes_ += piece.data.size();
    pieces_.push_back(std::move(piece));
    has_space = abandoned_ || bytes_ < kRelayBytesMax;
    if (!has_space) space_ = std::move(space);
  }
  Notify();
  return has_space;
}

void LogRelay::CloseSender() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    space_ = nullptr;
  }
  Notify();
}

void LogRelay::Notify() {
  std::function<void()> ready;
  {
    std::lock_guard lock(mutex_);
    ready = ready_;
  }
  if (ready) ready();
}

void LogRelay::set_ready(std::function<void()> ready) {
  std::lock_guard lock(mutex_);
  ready_ = std::move(ready);
}

bool LogRelay::abandoned() const {
  std::lock_guard lock(mutex_);
  return abandoned_;
}

std::optional<LogPiece> LogRelay::Pop() {
  std::function<void()> space;
  std::optional<LogPiece> piece;
  {
    std::lock_guard lock(mutex_);
    if (pieces_.empty()) return std::nullopt;
    piece = std::move(pieces_.front());
    pieces_.pop_front();
    bytes_ -= piece->data.size();
    if (bytes_ < kRelayBytesMax / 2) space = std::exchange(space_, nullptr);
  }
  if (space) space();
  return piece;
}

bool LogRelay::HasPieces() const {
  std::lock_guard lock(mutex_);
  return !pieces_.empty();
}

bool LogRelay::drained() const {
  std::lock_guard lock(mutex_);
  return closed_ && pieces_.empty();
}

void LogRelay::Abandon() {
  std::function<void()> space;
  std::function<void()> ready;
  {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    space = std::exchange(space_, nullptr);
    ready = std::exchange(ready_, nullptr);
  }
  if (space) space();
}

std::pair<uint64_t, std::shared_ptr<LogRelay>> LogHub::Add(NodeId node, const LogQuery& query) {
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kReadersMax) return {0, nullptr};
  // Ids are new across head restarts too: a worker answers each id once.
  if (next_id_ == 1) {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    next_id_ = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }
  uint64_t id = next_id_++;
  auto relay = std::make_shared<LogRelay>();
  entries_[id] = {node, query, relay};
  return {id, relay};
}

void LogHub::Remove(uint64_t id) {
  std::lock_guard lock(mutex_);
  entries_.erase(id);
}

std::vector<LogHub::Open> LogHub::OpenFor(NodeId node) {
  std::lock_guard lock(mutex_);
  std::vector<Open> open;
  for (auto& [id, entry] : entries_) {
    if (entry.node != node || entry.attached) continue;
    entry.told = true;
    open.push_back({id, entry.query});
  }
  return open;
}

bool LogHub::HasUntold(NodeId node) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_)
    if (entry.node == node && !entry.told) return true;
  return false;
}

std::shared_ptr<LogRelay> LogHub::Attach(NodeId node, uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end() || found->second.node != node || found->second.attached)
    return nullptr;
  found->second.attached = true;
  return found->second.relay;
}

}  // namespace rt
