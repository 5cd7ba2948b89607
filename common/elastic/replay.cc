#include "common/elastic/replay.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kJobPointsMax = 512;
constexpr double kHour_s = 3600;
constexpr double kReplayMax_s = 400 * kHour_s;  // A job that never ends ends the replay.

uint32_t CeilBatch(double value) { return static_cast<uint32_t>(std::ceil(value - 1e-8)); }

class Elastic final : public ReplayScheduler {
 public:
  Elastic(const ElasticPolicy& policy, const ReplayRules& rules,
          std::map<std::string, ReplayClass>& classes)
      : policy_(policy), rules_(rules), classes_(classes) {}

  std::vector<RankNodes> Decide(double, double arrival_s,
                                const std::vector<ReplayJob*>& jobs) override {
    const SubmeshCluster& cluster = rules_.cluster;
    ElasticRound round{.capacity = static_cast<double>(cluster.nodes * cluster.ranks_per_node),
                       .ranks_per_node = static_cast<uint32_t>(cluster.ranks_per_node),
                       .arrival_s = arrival_s,
                       .growth = rules_.growth,
                       .first = rules_.first};
    std::vector<RankNodes> held;
    for (const ReplayJob* job : jobs) {
      round.jobs.push_back(job->View(classes_.at(job->submission().application)));
      held.push_back(job->nodes());
    }
    return PlaceSubmeshes(cluster, held, policy_.Allocate(round));
  }

 private:
  const ElasticPolicy& policy_;
  const ReplayRules& rules_;
  std::map<std::string, ReplayClass>& classes_;
};

ReplayResult Summarise(const std::vector<ReplayJob>& jobs) {
  ReplayResult result;
  std::vector<double> times;
  const auto count = static_cast<double>(jobs.size());
  for (const ReplayJob& job : jobs) {
    result.jobs.push_back({job.submission().name, job.completion_s(), job.ended_s(), job.restarts(),
                           job.rank_seconds()});
    times.push_back(job.completion_s());
    result.mean_s += job.completion_s() / count;
    result.restarts += job.restarts() / count;
    result.rank_hours += job.rank_seconds() / kHour_s / count;
    result.makespan_s = std::max(result.makespan_s, job.ended_s());
  }
  std::sort(times.begin(), times.end());
  const double place = 0.99 * (count - 1);
  const auto low = static_cast<size_t>(place);
  const double high = times[std::min(low + 1, times.size() - 1)];
  result.worst_percent_s = times[low] + (place - static_cast<double>(low)) * (high - times[low]);
  return result;
}

}  // namespace

absl::StatusOr<std::vector<ReplaySubmission>> ReadWorkload(const std::string& name,
                                                           std::string_view text) {
  std::vector<ReplaySubmission> workload;
  RT_ASSIGN_OR_RETURN(const auto rows, ReadCsv(name, text, 5));
  for (const std::vector<std::string>& row : rows) {
    ReplaySubmission one{.name = row[0], .application = row[2]};
    const auto read = [](const std::string& from, auto& value) {
      const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
      return error == std::errc() && end == from.data() + from.size();
    };
    const bool is_valid = read(row[1], one.submitted_s) && read(row[3], one.ranks) &&
                          read(row[4], one.batch) && one.submitted_s >= 0 && one.ranks > 0;
    if (!is_valid)
      return Invalid(
          name + ": the line of " + Excerpt(one.name) + " has no time, number of ranks or batch",
          "the columns are name,time,application,num_replicas,batch_size");
    workload.push_back(std::move(one));
  }
  return workload;
}

ReplayJob::ReplayJob(const ReplaySubmission& submission, const MeasuredApplication& application,
                     const ReplayRules& rules, uint32_t fixed_batch)
    : submission_(submission), application_(&application), rules_(&rules),
      fixed_batch_(fixed_batch > 0 ? fixed_batch : application.fixed_batch()) {}

const Speed* ReplayJob::SpeedOf(const ReplayClass& of_class) const {
  return rules_->has_class_memory ? of_class.speed.get() : speed_.get();
}

void ReplayJob::ChooseBatch(const ReplayClass& of_class) {
  const BatchLimits& limits = application_->batches();
  const auto ranks = static_cast<uint32_t>(nodes_.size());
  double total = fixed_batch_;
  const Speed* speed = SpeedOf(of_class);
  if (total == 0 && speed == nullptr)
    total = std::max(limits.initial, static_cast<double>(limits.local_min) * ranks);
  if (total == 0) {
    const auto nodes = static_cast<uint32_t>(shape_.size());
    const BatchChoice choice = speed->Choose(noise_, nodes, ranks);
    local_batch_ = choice.local_batch;
    accumulation_ = choice.accumulation;
  } else {
    const uint32_t local = CeilBatch(total / ranks);
    accumulation_ = CeilBatch(static_cast<double>(local) / limits.local_max) - 1;
    if (ranks == 1 && total > limits.initial) accumulation_ = std::max(accumulation_, 1u);
    local_batch_ = CeilBatch(static_cast<double>(local) / (accumulation_ + 1));
  }
  const auto most = static_cast<uint32_t>(limits.most);
  local_batch_ = std::min(local_batch_, most / (ranks * (accumulation_ + 1)));
}

void ReplayJob::LearnNoise(const GradientNoise& noise, ReplayClass& of_class) {
  noise_ = noise;
  has_noise_ = true;
  ClassMemory& memory = of_class.memory;
  if (epoch_ != 0) return;
  memory.noise = noise;
  memory.has_noise = true;
}

void ReplayJob::Measure(double step_s, double sync_s, ReplayClass& of_class) {
  StepPoint point{.nodes = static_cast<uint32_t>(shape_.size()),
                  .ranks = static_cast<uint32_t>(nodes_.size()),
                  .local_batch = local_batch_,
                  .count = 1,
                  .step_mean = step_s,
                  .sync_mean = sync_s};
  ranks_measured_ = std::max(ranks_measured_, point.ranks);
  const auto has = [&](const std::vector<StepPoint>& points) {
    return std::any_of(points.begin(), points.end(),
                       [&](const StepPoint& known) { return known.shape() == point.shape(); });
  };
  if (!has(points_)) {
    MergePoints(points_, {point}, kJobPointsMax);
    if (rules_->has_class_memory && of_class.speed != nullptr)
      slowness_ = SlownessOf(of_class.memory, *of_class.speed, points_);
    else if (!rules_->has_class_memory)
      speed_ = std::make_unique<Speed>(application_->batches(), points_);
  }
  if (!rules_->has_class_memory || has(of_class.memory.points)) return;
  ElasticProfile measured{.batches = application_->batches(),
                          .noise = noise_,
                          .progress = progress_,
                          .points = {point}};
  of_class.memory.Learn(measured, slowness_);
  of_class.speed = std::make_unique<Speed>(of_class.memory.batches, of_class.memory.points);
}

absl::Status ReplayJob::Advance(double seconds, ReplayClass& of_class) {
  if (is_done() || nodes_.empty()) {
    now_s_ += seconds;
    return absl::OkStatus();
  }
  const auto ranks = static_cast<double>(nodes_.size());
  const double idle = std::min(restarting_s_, seconds);
  restarting_s_ -= idle;
  now_s_ += idle;
  rank_seconds_ += idle * ranks;
  seconds -= idle;
  while (seconds > 0 && !is_done()) {
    const double batch = ranks * local_batch_ * (accumulation_ + 1);
    RT_ASSIGN_OR_RETURN(const auto times, application_->StepOf(shape_, local_batch_));
    const GradientNoise noise = application_->NoiseOf(batch, epoch_);
    LearnNoise(noise, of_class);
    Measure(times.step_s, times.sync_s, of_class);
    const double rate = noise.Gain(batch / application_->batches().initial) /
                        (times.step_s + (times.step_s - times.sync_s) * accumulation_);
    const double next = application_->ProgressAfter(epoch_ + 1);
    double spent = seconds;
    if (progress_ + rate * seconds < next) {
      progress_ += rate * seconds;
      seconds = 0;
    } else {
      spent = std::nearbyint((next - progress_) / rate);
      seconds -= spent;
      progress_ = next;
      ++epoch_;
      if (epoch_ == application_->epochs()) ended_s_ = now_s_ + spent;
    }
    now_s_ += spent;
    rank_seconds_ += spent * ranks;
    if (!is_done()) ChooseBatch(of_class);
  }
  of_class.memory.most_progress = std::max(of_class.memory.most_progress, progress_);
  if (is_done()) Finish(of_class);
  now_s_ += seconds;
  return absl::OkStatus();
}

void ReplayJob::Finish(ReplayClass& of_class) { of_class.memory.LearnEnd(progress_); }

void ReplayJob::Place(const RankNodes& nodes, const ReplayClass& of_class) {
  nodes_ = nodes;
  shape_.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i == 0 || nodes[i] != nodes[i - 1]) shape_.push_back(0);
    ++shape_.back();
  }
  if (nodes.empty()) return;
  if (!has_noise_ && rules_->has_class_memory && of_class.memory.has_noise)
    noise_ = of_class.memory.noise;
  ChooseBatch(of_class);
  restarting_s_ = rules_->restart_s;
  if (has_run_) ++restarts_;
  has_run_ = true;
}

ElasticJob ReplayJob::View(const ReplayClass& of_class) const {
  const bool uses_class = rules_->has_class_memory;
  ElasticJob view{.speed = SpeedOf(of_class),
                  .noise = noise_,
                  .progress = progress_,
                  .total = application_->ProgressAfter(application_->epochs()),
                  .slowness = slowness_,
                  .ranks = static_cast<uint32_t>(nodes_.size()),
                  .ranks_max = application_->ranks_max(),
                  .ranks_measured = ranks_measured_,
                  .restart_s = rules_->restart_s,
                  .has_claim = false};
  if (uses_class) {
    view.ranks_measured = std::max(view.ranks_measured, of_class.memory.MostRanks());
    if (!has_noise_ && of_class.memory.has_noise) view.noise = of_class.memory.noise;
  }
  if (rules_->learns_totals && view.speed != nullptr)
    view.total = of_class.memory.ExpectedTotal(progress_, view.speed->Rate(view.noise, 1, 1));
  return view;
}

std::unique_ptr<ReplayScheduler> MakeElasticScheduler(const ElasticPolicy& policy,
                                                      const ReplayRules& rules,
                                                      std::map<std::string, ReplayClass>& classes) {
  return std::make_unique<Elastic>(policy, rules, classes);
}

absl::StatusOr<ReplayResult> Replay(const std::vector<ReplaySubmission>& workload,
                                    const Applications& applications, const ReplayRules& rules,
                                    const MakeScheduler& make, bool tuned) {
  std::map<std::string, ReplayClass> classes;
  std::vector<ReplayJob> jobs;
  for (const ReplaySubmission& one : workload) {
    const auto application = applications.find(one.application);
    if (application == applications.end())
      return NotFound("the trace names the application '" + Excerpt(one.application) +
                          "', which has no measurements",
                      "its folder belongs into traces/");
    classes[one.application];
    jobs.emplace_back(one, application->second, rules, tuned ? one.batch : 0);
  }
  const std::unique_ptr<ReplayScheduler> scheduler = make(classes);
  double now_s = 0;
  size_t rounds = 0;
  const auto is_open = [](const ReplayJob& job) { return !job.is_done(); };
  while (std::any_of(jobs.begin(), jobs.end(), is_open)) {
    if (now_s > kReplayMax_s)
      return absl::DeadlineExceededError("the jobs of the trace do not end");
    for (ReplayJob& job : jobs)
      RT_RETURN_IF_ERROR(job.Advance(rules.interval_s, classes[job.submission().application]));
    now_s += rules.interval_s;
    std::vector<ReplayJob*> active;
    double arrived = 0;
    for (ReplayJob& job : jobs) {
      const double submitted_s = job.submission().submitted_s;
      if (submitted_s > now_s) continue;
      if (submitted_s > now_s - kHour_s) ++arrived;
      if (!job.is_done()) active.push_back(&job);
    }
    if (active.empty()) continue;
    ++rounds;
    const double arrival_s = std::min(now_s, kHour_s) / std::max(arrived, 1.0);
    const std::vector<RankNodes> decided = scheduler->Decide(now_s, arrival_s, active);
    for (size_t i = 0; i < active.size(); ++i)
      if (active[i]->nodes() != decided[i])
        active[i]->Place(decided[i], classes[active[i]->submission().application]);
  }
  ReplayResult result = Summarise(jobs);
  result.rounds = rounds;
  return result;
}

}  // namespace rt
