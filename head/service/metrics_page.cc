#include "head/service/metrics_page.h"

#include <map>
#include <vector>

#include "common/base/strings.h"

namespace rt {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') escaped += "\\n";
    else escaped += c;
  }
  return escaped;
}

class Page {
 public:
  // Starts a family: its samples follow.
  void Family(const std::string& name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void Sample(const Labels& labels, double value) {
    text_ += name_;
    for (const auto& [key, label] : labels) {
      text_ += (&key == &labels.front().first ? "{" : ",") + key + "=\"" + Escaped(label) + "\"";
    }
    text_ += (labels.empty() ? " " : "} ") + FormatDouble(value) + "\n";
  }
  void One(const std::string& name, const char* type, const char* help, double value) {
    Family(name, type, help);
    Sample({}, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_, name_;
};

double Whole(int64_t units) { return static_cast<double>(units) / kUnit; }

void AddHead(Page& page, const Core& core, const HeadFacts& facts) {
  const State& state = core.world.state;
  page.Family("rt_head_info", "gauge", "The head that answers.");
  page.Sample({{"cluster", state.cluster_name}, {"version", RT_VERSION}}, 1);
  page.One("rt_head_epoch", "gauge", "How often a head took over this journal.",
           static_cast<double>(state.epoch));
  page.One("rt_head_records_forgotten", "gauge",
           "Records that workers were told of and that the journal lacks.",
           static_cast<double>(core.soft.records_forgotten()));
  page.One("rt_head_start_time_seconds", "gauge", "When this head took over, as Unix time.",
           ToSeconds(state.started_at));
  page.One("rt_journal_events_total", "counter", "Events in the journal.",
           static_cast<double>(state.seq));
  page.One("rt_journal_durable_events_total", "counter", "Events that are durable.",
           static_cast<double>(facts.durable_seq));
  page.One("rt_journal_synced_bytes_total", "counter", "Bytes synced since this head started.",
           static_cast<double>(facts.bytes_synced));
}

void AddStore(Page& page, const StoreFacts& store) {
  page.One("rt_checkpoint_store_used_bytes", "gauge", "What the checkpoint store holds.",
           static_cast<double>(store.used_bytes));
  if (store.quota_bytes > 0)
    page.One("rt_checkpoint_store_quota_bytes", "gauge", "What it may hold.",
             static_cast<double>(store.quota_bytes));
  page.One("rt_checkpoint_store_refuses", "gauge", "1 while new checkpoints wait for room.",
           store.refuses ? 1 : 0);
}

void AddNodes(Page& page, const Core& core) {
  std::map<std::string, uint64_t> states;
  for (const char* name : {"READY", "SUSPECT", "DRAINING", "LOST", "STARTING"}) states[name] = 0;
  Resources total, used;
  for (const auto& [id, node] : core.world.state.nodes) {
    if (node.gone) continue;
    ++states[NodeStateName(core, node)];
    if (node.lost || !node.ready) continue;
    total.Add(node.inventory.resources);
    auto index = core.world.index.nodes.find(id);
    if (index != core.world.index.nodes.end()) used.Add(index->second.used);
  }
  page.Family("rt_nodes", "gauge", "Nodes by state.");
  for (const auto& [name, count] : states)
    page.Sample({{"state", name}}, static_cast<double>(count));
  auto add = [&page](const Resources& resources) {
    page.Sample({{"resource", "cpu"}}, Whole(resources.cpu));
    page.Sample({{"resource", "gpu"}}, Whole(resources.gpu));
    page.Sample({{"resource", "memory_bytes"}}, static_cast<double>(resources.memory));
    for (const auto& [name, units] : resources.custom)
      page.Sample({{"resource", "custom/" + name}}, Whole(units));
  };
  page.Family("rt_resources", "gauge", "What the nodes that can work have.");
  add(total);
  page.Family("rt_resources_used", "gauge", "What attempts hold of it.");
  add(used);
}

// Of each gpu of the nodes that are connected, as their last Sync told.
void AddGpus(Page& page, const GpuMetrics& gpus) {
  struct Family {
    const char *name, *type, *help;
    int64_t GpuSample::*value;
    double each;
  };
  constexpr double kMilli = 1e-3;
  const Family families[] = {
      {"rt_gpu_utilisation_percent", "gauge", "Time in which the gpu computed.",
       &GpuSample::utilisation, 1},
      {"rt_gpu_memory_used_bytes", "gauge", "Memory in use.", &GpuSample::memory_used, 1},
      {"rt_gpu_memory_bytes", "gauge", "Memory of the gpu.", &GpuSample::memory_total, 1},
      {"rt_gpu_temperature_celsius", "gauge", "Temperature.", &GpuSample::temperature, 1},
      {"rt_gpu_power_watts", "gauge", "Power.", &GpuSample::power_milliwatts, kMilli},
      {"rt_gpu_sm_mhz", "gauge", "Clock of the multiprocessors.", &GpuSample::sm_mhz, 1},
      {"rt_gpu_throttle_bits", "gauge", "What slows the clocks, as NVML's bits.",
       &GpuSample::throttle, 1},
      {"rt_gpu_ecc_corrected_total", "counter", "Corrected errors of its memory.",
       &GpuSample::ecc_corrected, 1},
      {"rt_gpu_ecc_uncorrected_total", "counter", "Uncorrected errors of its memory.",
       &GpuSample::ecc_uncorrected, 1},
      {"rt_gpu_remapped_rows", "gauge", "Rows of its memory that were replaced.",
       &GpuSample::remapped_rows, 1},
      {"rt_gpu_nvlink_sent_bytes_total", "counter", "Bytes sent over NVLink.",
       &GpuSample::nvlink_sent, 1},
      {"rt_gpu_nvlink_received_bytes_total", "counter", "Bytes received over NVLink.",
       &GpuSample::nvlink_received, 1},
      {"rt_gpu_pcie_sent_bytes_total", "counter", "Bytes sent over PCIe.", &GpuSample::pcie_sent,
       1},
      {"rt_gpu_pcie_received_bytes_total", "counter", "Bytes received over PCIe.",
       &GpuSample::pcie_received, 1},
      {"rt_gpu_pcie_replays_total", "counter", "Packets that PCIe sent again.",
       &GpuSample::pcie_replays, 1}};
  for (const Family& family : families) {
    page.Family(family.name, family.type, family.help);
    for (const GpuMetrics::OfNode& one : gpus.nodes) {
      for (const GpuSample& sample : one.samples) {
        const auto value = static_cast<double>(sample.*family.value);
        if (value < 0) continue;
        page.Sample({{"node", one.node}, {"gpu", sample.uuid}},
                    family.each == 1 ? value : value * family.each);
      }
    }
  }
  page.Family("rt_gpu_fault", "gauge", "1 while the gpu takes no work.");
  for (const GpuMetrics::OfNode& one : gpus.nodes)
    for (const auto& [uuid, has_fault] : one.faults)
      page.Sample({{"node", one.node}, {"gpu", uuid}}, has_fault ? 1 : 0);
}

// The open ones, and how many there are of the others.
void AddExperiments(Page& page, const Core& core) {
  std::map<std::string, uint64_t> states;
  for (const auto& [id, experiment] : core.world.state.experiments)
    ++states[ExperimentStateName(core, experiment)];
  page.Family("rt_experiments", "gauge", "Experiments by state.");
  for (const auto& [name, count] : states)
    page.Sample({{"state", name}}, static_cast<double>(count));
  page.Family("rt_trials", "gauge", "Trials of the experiments that are not over, by state.");
  auto labels = [](const Experiment& experiment, const ExperimentIndex& index) {
    return Labels{{"experiment", std::to_string(experiment.id.value)},
                  {"name", index.spec.name}};
  };
  auto for_open = [&](auto&& act) {
    for (ExperimentId id : core.world.index.open_experiments)
      act(core.world.state.experiments.at(id), core.world.index.experiments.at(id));
  };
  for_open([&](const Experiment& experiment, const ExperimentIndex& index) {
    std::map<std::string, uint64_t> trials = {{"COMPLETED", index.completed},
                                              {"STOPPED", index.stopped},
                                              {"FAILED", index.failed}};
    for (const auto* numbers : {&index.pending, &index.live})
      for (uint32_t number : *numbers) ++trials[TrialStateName(core, experiment.trials[number])];
    for (const auto& [name, count] : trials) {
      Labels with_state = labels(experiment, index);
      with_state.emplace_back("state", name);
      page.Sample(with_state, static_cast<double>(count));
    }
  });
  page.Family("rt_experiment_best", "gauge", "The best value of the experiment's metric so far.");
  for_open([&](const Experiment& experiment, const ExperimentIndex& index) {
    if (!index.best_trial) return;
    Labels with_metric = labels(experiment, index);
    with_metric.emplace_back("metric", index.spec.metric);
    page.Sample(with_metric, experiment.trials[*index.best_trial].best);
  });
}

void AddWork(Page& page, const Core& core) {
  uint64_t reports = 0, failures = 0, losses = 0;
  for (const auto& [id, experiment] : core.world.state.experiments) {
    for (const Trial& trial : experiment.trials) {
      reports += trial.reports;
      failures += trial.runs.failures;
      losses += trial.runs.losses;
    }
  }
  page.One("rt_trial_rows", "gauge", "Reported rows that count, over all trials.",
           static_cast<double>(reports));
  page.One("rt_trial_failures", "gauge", "Attempts that failed by their own fault.",
           static_cast<double>(failures));
  page.One("rt_trial_losses", "gauge", "Attempts that machines ended.",
           static_cast<double>(losses));
  std::map<std::string, uint64_t> jobs;
  for (const auto& [id, job] : core.world.state.jobs) ++jobs[JobStateName(core, job)];
  page.Family("rt_jobs", "gauge", "Jobs by state.");
  for (const auto& [name, count] : jobs) page.Sample({{"state", name}}, static_cast<double>(count));
  page.One("rt_waiting", "gauge", "Trials and jobs that wait for nodes.",
           static_cast<double>(core.world.index.ready_order.size()));
}

}  // namespace

std::string MetricsPage(const Core& core, const HeadFacts& facts) {
  Page page;
  AddHead(page, core, facts);
  AddNodes(page, core);
  AddExperiments(page, core);
  AddWork(page, core);
  AddStore(page, facts.store);
  return page.Take();
}

GpuMetrics GpuMetrics::Of(const Core& core) {
  GpuMetrics gpus;
  for (const auto& [id, node] : core.world.state.nodes) {
    if (node.gone) continue;
    OfNode one{.node = node.name, .samples = {}, .faults = {}};
    for (const GpuInfo& gpu : node.inventory.gpus)
      one.faults.emplace_back(gpu.uuid, !gpu.fault.empty());
    const auto soft = core.soft.nodes.find(id);
    if (soft != core.soft.nodes.end() && soft->second.connected)
      one.samples = soft->second.gpu_samples;
    if (!one.samples.empty() || !one.faults.empty()) gpus.nodes.push_back(std::move(one));
  }
  return gpus;
}

std::string GpuMetrics::Text() const {
  Page page;
  AddGpus(page, *this);
  return page.Take();
}

std::string PortMetrics(const std::map<std::string, PortCounters>& ports) {
  Page page;
  auto family = [&](const char* name, const char* type, const char* help,
                    uint64_t PortCounters::*count) {
    page.Family(name, type, help);
    for (const auto& [port, counters] : ports)
      page.Sample({{"port", port}}, static_cast<double>(counters.*count));
  };
  family("rt_port_connections", "gauge", "Open connections.", &PortCounters::open);
  family("rt_port_pending_connections", "gauge",
         "Open connections that have not shown who they are.", &PortCounters::pending);
  family("rt_port_accepted_total", "counter", "Connections accepted.", &PortCounters::accepted);
  family("rt_port_refused_total", "counter",
         "Connections closed because there was no capacity, or because they did not speak TLS.",
         &PortCounters::refused);
  family("rt_port_timed_out_total", "counter",
         "Connections closed because they did not show in time who they are.",
         &PortCounters::timed_out);
  family("rt_port_cut_off_total", "counter", "Connections cut off because of what they sent.",
         &PortCounters::cut_off);
  return page.Take();
}

}  // namespace rt
