#include "worker/notice/notice_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"

namespace rt::worker {
namespace {

constexpr Millis kPauseAfterFailure = 1'000;

std::string Describe(const Notice& notice) {
  const std::string what = "this node was given notice: " + EscapeControl(notice.reason);
  if (notice.deadline == 0) return what;
  return what + ", by " + FormatTime(notice.deadline);
}

}  // namespace

std::optional<Notice> FirstNotice(const std::vector<std::optional<Notice>>& said, Millis now) {
  std::optional<Notice> first;
  for (const std::optional<Notice>& one : said) {
    if (!one) continue;
    if (one->deadline != 0 && now > one->deadline + limits::kNoticeGrace) continue;
    const bool is_sooner = !first || (one->deadline != 0 && (first->deadline == 0 ||
                                                             one->deadline < first->deadline));
    if (is_sooner) first = one;
  }
  return first;
}

NoticeWatch::NoticeWatch(std::vector<std::unique_ptr<NoticeSource>> sources, NoticeEvents events)
    : events_(std::move(events)) {
  for (auto& source : sources) watched_.push_back({.source = std::move(source)});
}

NoticeWatch::~NoticeWatch() {
  Stop();
  for (Watched& watched : watched_)
    if (watched.thread.joinable()) watched.thread.join();
}

void NoticeWatch::Start() {
  for (Watched& watched : watched_)
    watched.thread = std::thread([this, &watched] { Run(watched); });
}

void NoticeWatch::Stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  stopped_.notify_all();
}

void NoticeWatch::Run(Watched& watched) {
  for (bool is_over = false; !is_over;) {
    LookOnce(watched);
    std::unique_lock lock(mutex_);
    const Millis pause =
        std::max(watched.source->pause(), watched.fails ? kPauseAfterFailure : Millis{0});
    is_over = stopped_.wait_for(lock, std::chrono::milliseconds(pause), [&] { return stopping_; });
  }
}

void NoticeWatch::LookOnce(Watched& watched) {
  const auto said = watched.source->Look(WallClock());
  if (said.ok() && *said && events_.is_idle())
    if (absl::Status done = watched.source->Acknowledge(); !done.ok()) Complain(watched, done);
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  watched.fails = !said.ok();
  if (said.ok()) {
    watched.said = *said;
  } else {
    Complain(watched, said.status());
  }
  Merge();
}

void NoticeWatch::Complain(Watched& watched, const absl::Status& why) {
  if (std::exchange(watched.warned, true)) return;
  RT_LOG(kWarning) << "notices from " << watched.source->name()
                   << " fail, which is not said again: " << EscapeControl(MessageOf(why));
}

void NoticeWatch::Merge() {
  std::vector<std::optional<Notice>> said;
  for (const Watched& watched : watched_) said.push_back(watched.said);
  std::optional<Notice> first = FirstNotice(said, WallClock());
  if (first == current_) return;
  current_ = std::move(first);
  RT_LOG(kInfo) << (current_ ? Describe(*current_) : "the notice is withdrawn: this node stays");
  events_.on_change(current_);
}

}  // namespace rt::worker
