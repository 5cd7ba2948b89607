#include "head/loop/compute_lane.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "common/base/check.h"
#include "common/base/limits.h"

namespace rt {
namespace {

using std::chrono::steady_clock;

// Beside the core, the services and the journal, a model is in no hurry.
constexpr int kLaneNiceness = 10;

}  // namespace

ComputeLane::~ComputeLane() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<input::LaneAnswered> ComputeLane::Ask(const Core& core, Millis now) {
  for (ExperimentId closed : desk_.Close(core)) Submit(closed);
  for (LaneJob& job : desk_.Ask(core, now)) Submit(std::move(job));
  if (auto question = elastic_.Ask(core, now)) Submit(*std::move(question));
  return desk_.Overdue(core, now);
}

void ComputeLane::Take(const Input& input) {
  if (const auto* answered = std::get_if<input::LaneAnswered>(&input)) desk_.Take(*answered);
  if (const auto* sizes = std::get_if<input::ElasticAnswered>(&input)) elastic_.Take(*sizes);
}

void ComputeLane::Submit(Item item) {
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void ComputeLane::Run() {
  // Of this thread alone; where it may not be changed, the lane has the priority of the others.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLaneNiceness);
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (const auto* closed = std::get_if<ExperimentId>(&item)) models_.erase(*closed);
    else if (const auto* job = std::get_if<LaneJob>(&item)) Answer(*job);
    else Answer(std::get<ElasticQuestion>(item));
  }
}

void ComputeLane::Answer(const LaneJob& job) {
  if (job.spec.has_value()) {
    models_.erase(job.experiment);
    models_.try_emplace(job.experiment, *job.spec, job.seed);
  }
  const auto model = models_.find(job.experiment);
  RT_CHECK(model != models_.end());
  input::LaneAnswered answered = model->second.Answer(job, Deadline());
  if (!stopping_) answered_(std::move(answered));
}

void ComputeLane::Answer(const ElasticQuestion& question) {
  input::ElasticAnswered answered = AnswerElastic(question, Deadline());
  if (!stopping_) answered_(std::move(answered));
}

GiveUp ComputeLane::Deadline() const {
  const auto until = steady_clock::now() + std::chrono::milliseconds(limits::kLaneAnswerMax);
  return [this, until] { return stopping_ || steady_clock::now() >= until; };
}

}  // namespace rt
