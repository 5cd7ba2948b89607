// What the compute lane answers about elastic owners: a function of the question alone.
#include "head/core/elastic.h"

namespace rt {
namespace {

constexpr uint32_t kElasticVersion = 1;

// What the jobs of a question know, by class.
using TaughtClasses = std::map<std::string, Taught>;

SharedJob SharedOf(const ElasticQuestion::Job& job, uint32_t ranks, uint32_t ranks_per_node,
                   const ElasticJob& view) {
  SharedJob shared{.attempt = job.attempt,
                   .job_class = job.job_class,
                   .held = job.now.ranks,
                   .ranks_min = job.now.ranks_min,
                   .ranks_max = job.now.ranks_max,
                   .units = job.now.units,
                   .restart_s = job.now.restart_s,
                   .fixed = job.now.is_fixed,
                   .ranks = ranks,
                   .priority = job.now.priority};
  if (view.speed == nullptr) return shared;
  const JobCurve curve(view, ranks_per_node);
  shared.speed_up = ranks > 0 ? curve.SpeedUp(ranks) : 0;
  shared.speed_up_more = ranks < job.now.ranks_max ? curve.SpeedUp(ranks + 1) : 0;
  return shared;
}

// nullopt: there is no time left.
std::optional<SharedGroup> ShareOut(const ElasticQuestion& question,
                                    const ElasticQuestion::Group& group,
                                    const TaughtClasses& classes, const GiveUp& give_up) {
  ElasticRound round{.capacity = group.capacity,
                     .ranks_per_node = group.ranks_per_node,
                     .arrival_s = question.arrival_s};
  bool is_measured = false;
  static const Taught kNothing;
  for (const ElasticQuestion::Job& job : group.jobs) {
    if (give_up && give_up()) return std::nullopt;
    ElasticJob& view = round.jobs.emplace_back(job.now);
    const auto known = classes.find(job.job_class);
    const auto own = question.memory.own.find(job.attempt.owner);
    ViewJob(known == classes.end() ? kNothing : known->second,
            own == question.memory.own.end() ? nullptr : &own->second, view);
    is_measured = is_measured || view.speed != nullptr;
  }
  const ElasticPolicy& policy = is_measured ? CostatePolicy() : EqualSplit();
  SharedGroup shared{.policy = std::string(policy.name()),
                     .capacity = group.capacity,
                     .ranks_per_node = group.ranks_per_node};
  const std::vector<uint32_t> sizes = policy.Allocate(round);
  for (size_t i = 0; i < sizes.size(); ++i)
    shared.jobs.push_back(SharedOf(group.jobs[i], sizes[i], group.ranks_per_node, round.jobs[i]));
  return shared;
}

}  // namespace

input::ElasticAnswered AnswerElastic(const ElasticQuestion& question, const GiveUp& give_up) {
  input::ElasticAnswered answered{.epoch = question.epoch, .asked_at = question.asked_at};
  answered.answer.observed_through = question.observed_through;
  answered.answer.version = kElasticVersion;
  answered.answer.arrival_s = question.arrival_s;
  TaughtClasses classes;
  for (const ElasticQuestion::Group& group : question.groups)
    for (const ElasticQuestion::Job& job : group.jobs) {
      if (classes.contains(job.job_class)) continue;
      if (give_up && give_up()) return answered;
      classes.emplace(job.job_class, TeachClass(question.memory.RecordsOf(job.job_class)));
    }
  for (const ElasticQuestion::Group& group : question.groups) {
    std::optional<SharedGroup> shared = ShareOut(question, group, classes, give_up);
    if (!shared.has_value()) {
      answered.answer.groups.clear();
      return answered;
    }
    answered.answer.groups.push_back(*std::move(shared));
  }
  return answered;
}

ElasticQuestion QuestionOf(const event::SizesAnswered& answer, ElasticMemory memory) {
  ElasticQuestion question{.observed_through = answer.observed_through,
                           .arrival_s = answer.arrival_s,
                           .memory = std::move(memory)};
  for (const SharedGroup& group : answer.groups) {
    ElasticQuestion::Group& asked = question.groups.emplace_back();
    asked.capacity = group.capacity;
    asked.ranks_per_node = group.ranks_per_node;
    for (const SharedJob& shared : group.jobs) {
      ElasticQuestion::Job job{.attempt = shared.attempt, .job_class = shared.job_class};
      job.now.ranks = shared.held;
      job.now.ranks_min = shared.ranks_min;
      job.now.ranks_max = shared.ranks_max;
      job.now.units = shared.units;
      job.now.restart_s = shared.restart_s;
      job.now.is_fixed = shared.fixed;
      job.now.priority = static_cast<int>(shared.priority);
      asked.jobs.push_back(std::move(job));
    }
  }
  return question;
}

}  // namespace rt
