#include "worker/loop/loop_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt::worker {
namespace {

constexpr Millis kLooksPerBound = 20;

// Both files of a thread that has ended, or of a kernel without them, say nothing.
ThreadFacts FactsOf(int thread) {
  const std::string folder = "/proc/self/task/" + std::to_string(thread);
  ThreadFacts facts;
  if (auto stat = ReadFile(folder + "/stat"); stat.ok()) {
    const size_t name_end = stat->rfind(')');
    const bool has_state = name_end != std::string::npos && name_end + 2 < stat->size();
    const char state = has_state ? (*stat)[name_end + 2] : '?';
    facts.is_held = state == 'D' || state == 'T' || state == 't';
  }
  if (auto schedule = ReadFile(folder + "/schedstat"); schedule.ok()) {
    const std::vector<std::string> words = Split(*schedule, ' ');  // Run, waited (ns), slices.
    if (words.size() >= 2) facts.waited = std::strtoll(words[1].c_str(), nullptr, 10) / 1'000'000;
  }
  return facts;
}

}  // namespace

Millis StallMeter::Look(uint64_t moves, const ThreadFacts& thread, Millis now) {
  const Millis passed = looked_at_ == 0 ? 0 : now - looked_at_;
  const Millis waited = std::max<Millis>(0, thread.waited - waited_);
  looked_at_ = now;
  waited_ = thread.waited;
  if (moves != moves_) {
    moves_ = moves;
    stalled_ = 0;
  } else if (!thread.is_held) {
    stalled_ += std::max<Millis>(0, std::min(passed, 2 * period_) - waited);
  }
  return stalled_;
}

LoopWatch::LoopWatch(const LoopActivity& activity, Millis bound, LoopWatchEvents events)
    : activity_(activity), bound_(bound), period_(std::max<Millis>(10, bound / kLooksPerBound)),
      events_(std::move(events)) {
  if (bound_ > 0) thread_ = std::thread([this] { Run(); });
}

LoopWatch::~LoopWatch() { Stop(); }

void LoopWatch::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LoopWatch::Run() {
  StallMeter meter(period_);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, std::chrono::milliseconds(period_), [&] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    Look(meter);
    lock.lock();
  }
}

void LoopWatch::Look(StallMeter& meter) {
  const uint64_t moves = activity_.moves();
  HungActivity hung{.fence = activity_.fence(), .part = activity_.part()};
  hung.span = meter.Look(moves, FactsOf(activity_.thread()), SteadyClock());
  const bool is_faulty = hung.span >= bound_ / 2;
  if (activity_.moves() != moves) return;  // What was read is no longer so.
  if (is_faulty != is_faulty_) {
    is_faulty_ = is_faulty;
    std::string why = "the loop of its worker does not move";
    if (hung.part != ActivityKind::kNone)
      why += ": it handles " + rt::ToString(hung.fence) + " (" + ActivityName(hung.part) + ")";
    events_.on_fault(is_faulty ? why : "");
  }
  if (hung.span >= bound_) events_.on_hung(hung);
}

}  // namespace rt::worker
