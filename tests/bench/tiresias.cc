#include "tests/bench/tiresias.h"

#include <algorithm>
#include <map>

namespace rt::bench {
namespace {

constexpr double kDemotedAfter_s = 16 * 3600;  // Seconds times ranks.

class Tiresias final : public ReplayScheduler {
 public:
  explicit Tiresias(const ReplayRules& rules) : rules_(rules) {}

  std::vector<RankNodes> Decide(double now_s, double,
                                const std::vector<ReplayJob*>& jobs) override {
    Forget(jobs);
    for (ReplayJob* job : jobs) {
      const auto [entry, is_new] = known_.try_emplace(job);
      if (is_new) queues_[0].push_back(job);
      Attain(now_s, *job, entry->second);
    }
    std::map<const ReplayJob*, RankNodes> placed;
    const std::vector<ReplayJob*> starting = Select(now_s, placed);
    Place(starting, placed);
    std::vector<RankNodes> decided;
    for (ReplayJob* job : jobs) decided.push_back(placed[job]);
    return decided;
  }

 private:
  struct Service {
    bool runs = false;
    double looked_at_s = 0, attained_s = 0;
  };

  void Forget(const std::vector<ReplayJob*>& jobs) {
    const auto has_ended = [&](const ReplayJob* job) {
      return std::find(jobs.begin(), jobs.end(), job) == jobs.end();
    };
    for (auto& queue : queues_) std::erase_if(queue, has_ended);
    std::erase_if(known_, [&](const auto& one) { return has_ended(one.first); });
  }

  void Attain(double now_s, ReplayJob& job, Service& service) {
    if (service.runs) service.attained_s += now_s - service.looked_at_s;
    service.looked_at_s = now_s;
    auto& first = queues_[0];
    const auto place = std::find(first.begin(), first.end(), &job);
    if (place == first.end() || !service.runs) return;
    if (service.attained_s * job.submission().ranks < kDemotedAfter_s) return;
    first.erase(place);
    queues_[1].push_back(&job);
  }

  // Keeps what runs and still may; returns the jobs that start.
  std::vector<ReplayJob*> Select(double now_s, std::map<const ReplayJob*, RankNodes>& placed) {
    size_t free = rules_.cluster.nodes * rules_.cluster.ranks_per_node;
    std::vector<ReplayJob*> starting;
    for (const auto& queue : queues_)
      for (ReplayJob* job : queue) {
        Service& service = known_.at(job);
        const bool fits = job->submission().ranks <= free;
        if (fits) free -= job->submission().ranks;
        if (fits && service.runs) placed[job] = job->nodes();
        if (fits && !service.runs) starting.push_back(job);
        service.runs = fits;
        service.looked_at_s = now_s;
      }
    return starting;
  }

  // On the nodes with the most free gpus.
  void Place(const std::vector<ReplayJob*>& starting,
             std::map<const ReplayJob*, RankNodes>& placed) {
    std::vector<size_t> free(rules_.cluster.nodes, rules_.cluster.ranks_per_node);
    for (const auto& [job, nodes] : placed)
      for (uint32_t node : nodes) --free[node];
    for (ReplayJob* job : starting) {
      RankNodes nodes;
      while (nodes.size() < job->submission().ranks) {
        const auto most = std::max_element(free.begin(), free.end());
        const size_t taken = std::min(*most, job->submission().ranks - nodes.size());
        nodes.insert(nodes.end(), taken, static_cast<uint32_t>(most - free.begin()));
        *most -= taken;
      }
      placed[job] = nodes;
    }
  }

  const ReplayRules& rules_;
  std::vector<ReplayJob*> queues_[2];
  std::map<const ReplayJob*, Service> known_;
};

}  // namespace

std::unique_ptr<ReplayScheduler> MakeTiresias(const ReplayRules& rules) {
  return std::make_unique<Tiresias>(rules);
}

}  // namespace rt::bench
