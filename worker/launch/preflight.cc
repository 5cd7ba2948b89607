#include "worker/launch/preflight.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "worker/core/node_state.h"
#include "worker/launch/quoted.h"

namespace rt::worker {
namespace {

constexpr Millis kTimeToReport = 1'000;  // The probe reports by itself so long before its end.
constexpr size_t kOutputMax = 64 << 10;  // Of its output, read.
constexpr Bytes kReportMax = 4 << 20;    // A gang of 10,000 nodes needs less than half of it.

PreflightResult Blame(const std::vector<std::string>& uuids, const std::string& what) {
  PreflightResult result;
  for (const std::string& uuid : uuids) result.faults.push_back({uuid, what});
  return result;
}

PreflightResult CannotRun(const std::string& why) {
  return {.faults = {}, .error = why, .elsewhere = "", .slow_links = {}, .bus_gbps = 0};
}

std::string TextAt(const Json& json, const char* key) {
  const Json* value = json.is_object() ? json.Find(key) : nullptr;
  return value != nullptr && value->is_string() ? Quoted(value->AsString()) : "";
}

void AddDeviceFaults(const std::vector<std::string>& uuids, const Json::Array& devices,
                     PreflightResult& result) {
  for (size_t i = 0; i < uuids.size() && i < devices.size(); ++i)
    if (const std::string fault = TextAt(devices[i], "fault"); !fault.empty())
      result.faults.push_back({uuids[i], fault});
  // CUDA leaves out the first that it cannot use, and all after it.
  if (result.faults.empty() && devices.size() < uuids.size())
    result.faults.push_back({uuids[devices.size()], "CUDA does not find it"});
}

// ": …", what the probe has printed beside its report; "": nothing.
std::string Printed(const ProgramResult& end) {
  const std::string output = Quoted(Trim(end.output));
  return output.empty() ? "" : ": " + output;
}

std::string WithoutReport(const ProgramResult& end) {
  return "rt-probe wrote no report: " + ToString(end.exit) + Printed(end);
}

// Where the probes of a gang meet: as its programs will.
constexpr std::string_view kOfMeeting[] = {"GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR",
                                           "MASTER_PORT", "CUDA_VISIBLE_DEVICES"};

bool IsOverNodes(const LaunchBody& body) {
  const auto nodes = body.env.find("GROUP_WORLD_SIZE");
  return nodes != body.env.end() && nodes->second != "1" && body.port != 0;
}

std::vector<std::string> EnvOfProbe(const LaunchBody& body) {
  const auto is_of_meeting = [](std::string_view name) {
    return std::find(std::begin(kOfMeeting), std::end(kOfMeeting), name) != std::end(kOfMeeting);
  };
  std::vector<std::string> env;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    if (!is_of_meeting(entry.substr(0, entry.find('=')))) env.emplace_back(entry);
  }
  // As the program is going to use NCCL.
  for (const auto& [name, value] : body.env)
    if (name.starts_with("NCCL_") || (is_of_meeting(name) && IsOverNodes(body)))
      env.push_back(name + "=" + value);
  env.push_back("CUDA_VISIBLE_DEVICES=" + Join(body.gpu_uuids, ","));
  if (IsOverNodes(body)) env.push_back("MASTER_PORT=" + std::to_string(body.port));
  return env;
}

// The node of each process that came to the meeting, by number; "": only rank 0's node knows them.
std::string NodesText(const LaunchBody& body) {
  std::vector<NodeId> nodes;
  for (const NodeId node : body.rank_nodes)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  std::vector<std::string> numbers;
  for (const NodeId node : nodes) numbers.push_back(std::to_string(node.value));
  return numbers.empty() ? "" : "; from 0 on these are the nodes " + Join(numbers, ", ");
}

bool IsAtFault(const Json& state) {
  return state.is_int() && state.AsInt() == static_cast<int64_t>(NodeState::kFault);
}

std::vector<ObservedLink> LinksAt(const Json& across) {
  std::vector<ObservedLink> links;
  const Json* all = across.Find("slow_links");
  if (all == nullptr || !all->is_array()) return links;
  for (const Json& link : all->array()) {
    if (links.size() >= limits::kSlowLinksMax) break;
    const int64_t node = link.is_object() ? link.GetInt("node", -1) : -1;
    const int64_t other = link.is_object() ? link.GetInt("other", -1) : -1;
    if (node < 0 || other < 0) continue;
    links.push_back(
        {static_cast<uint32_t>(node), static_cast<uint32_t>(other), link.GetDouble("bus_gbps", 0)});
  }
  return links;
}

// What the all-reduce across nodes says, where it was wanted and the node itself is well.
PreflightResult JudgeAcross(const Json& report, const ProgramResult& end, double min_bus_gbps) {
  const Json* across = report.Find("across_nodes");
  if (across == nullptr || !across->is_object()) return {};
  const std::string fault = TextAt(*across, "fault"), note = TextAt(*across, "note");
  const Json* nodes = across->Find("nodes");
  const bool has_fault = nodes != nullptr && nodes->is_array() &&
                         std::any_of(nodes->array().begin(), nodes->array().end(), IsAtFault);
  std::vector<ObservedLink> slow = LinksAt(*across);
  if (has_fault || (!slow.empty() && !fault.empty()))
    return {.faults = {},
            .error = "",
            .elsewhere = fault,
            .slow_links = std::move(slow),
            .bus_gbps = 0};
  if (!fault.empty()) return CannotRun(fault + Printed(end));
  const double measured = across->GetDouble("bus_gbps", 0);
  if (min_bus_gbps > 0 && measured <= 0)
    return CannotRun("rt-probe did not measure the bandwidth between the nodes" +
                     (note.empty() ? "" : ": " + note));
  PreflightResult result;
  result.bus_gbps = measured;
  return result;
}

}  // namespace

PreflightResult JudgePreflight(const std::vector<std::string>& uuids, const ProbeRun& run,
                               double min_bus_gbps) {
  if (absl::IsDeadlineExceeded(run.end.status()))
    return Blame(uuids, "rt-probe did not end in time on " + Join(uuids, ", "));
  if (!run.end.ok()) return CannotRun("rt-probe: " + MessageOf(run.end.status()));
  if (run.end->exit.signal != 0)
    return Blame(uuids, "rt-probe was " + ToString(run.end->exit) + " on " + Join(uuids, ", ") +
                            Printed(*run.end));
  if (absl::IsOutOfRange(run.report.status()))
    return CannotRun("the report of rt-probe: " + MessageOf(run.report.status()));
  const absl::StatusOr<Json> report = Json::Parse(run.report.value_or(""));
  const Json* devices = report.ok() && report->is_object() ? report->Find("devices") : nullptr;
  if (devices == nullptr || !devices->is_array()) return CannotRun(WithoutReport(*run.end));
  if (const std::string fault = TextAt(*report, "fault"); !fault.empty())
    return CannotRun("rt-probe: " + fault + Printed(*run.end));
  PreflightResult result;
  AddDeviceFaults(uuids, devices->array(), result);
  const Json* all = report->Find("all_reduce");
  const bool has_all = all != nullptr && all->is_object();
  if (!result.faults.empty()) return result;
  if (uuids.size() < 2) return JudgeAcross(*report, *run.end, min_bus_gbps);
  const double measured = has_all ? all->GetDouble("bus_gbps", 0) : 0;
  const bool is_slow = measured > 0 && measured < min_bus_gbps;
  // A slow bus by itself is no fault of a gpu: the experiment may ask for more than the machine
  // has.
  if (is_slow && all->GetInt("errors", 0) == 0)
    return CannotRun("all-reduce at " + FormatDouble(measured) + " GB/s of bus bandwidth, " +
                     FormatDouble(min_bus_gbps) + " are asked for, between " + Join(uuids, ", ") +
                     ": none of them is slower than the others");
  if (has_all && !TextAt(*all, "fault").empty())
    return Blame(uuids, TextAt(*all, "fault") + ", between " + Join(uuids, ", "));
  if (min_bus_gbps > 0 && measured <= 0) {
    const std::string note = has_all ? TextAt(*all, "note") : "";
    return CannotRun("rt-probe did not measure the bandwidth between the gpus" +
                     (note.empty() ? "" : ": " + note));
  }
  return JudgeAcross(*report, *run.end, min_bus_gbps);
}

bool Preflights::IsFor(const LaunchBody& body) {
  return body.preflight && !body.gpu_uuids.empty() && body.resources.gpu % kUnit == 0;
}

void Preflights::Ask(const LaunchBody& body, const std::string& report, Done done) {
  const AttemptId& key = body.fence.attempt;
  std::optional<PreflightResult> known;
  {
    std::lock_guard lock(mutex_);
    const auto [test, is_first] = tests_.try_emplace(key);
    known = test->second.result;
    if (!is_first && !known) {
      test->second.waiting.push_back(std::move(done));
      return;
    }
  }
  if (known) return done(*known);
  const PreflightResult result = Run(body, report);
  std::vector<Done> waiting;
  {
    std::lock_guard lock(mutex_);
    Test& test = tests_[key];
    test.result = result;
    waiting.swap(test.waiting);
  }
  done(result);
  for (const Done& one : waiting) one(result);
}

void Preflights::AddLinks(Observed& observed) const {
  std::lock_guard lock(mutex_);
  const auto test = tests_.find(observed.fence.attempt);
  if (test == tests_.end() || !test->second.result) return;
  observed.slow_links = test->second.result->slow_links;
  observed.bus_gbps = test->second.result->bus_gbps;
}

void Preflights::Forget(const Fence& fence) {
  std::lock_guard lock(mutex_);
  const auto test = tests_.find(fence.attempt);
  if (test != tests_.end() && test->second.result) tests_.erase(test);
}

PreflightResult Preflights::Run(const LaunchBody& body, const std::string& report) const {
  const absl::StatusOr<std::string> probe = ProbeProgram(bin_dir_);
  if (!probe.ok()) return CannotRun(MessageOf(probe.status()));
  const Millis within = std::max<Millis>(most_ / 2, most_ - kTimeToReport);
  std::vector<std::string> argv = {*probe, "--report", report, "--within",
                                   FormatDouble(static_cast<double>(within) / 1'000)};
  if (body.preflight_min_bus_gbps > 0) {
    argv.push_back("--min-bus-gbps");
    argv.push_back(FormatDouble(body.preflight_min_bus_gbps));
  }
  if (body.gpu_uuids.size() == 1) argv.push_back("--no-all-reduce");
  Millis most = most_;
  if (IsOverNodes(body)) {
    argv.insert(
        argv.end(),
        {"--across-nodes", "--meet-max", FormatDouble(static_cast<double>(meet_max_) / 1'000),
         "--links-max", FormatDouble(static_cast<double>(limits::kPreflightLinksMax) / 1'000)});
    most += meet_max_ + most_ + limits::kPreflightLinksMax;
  }
  ProbeRun run;
  run.end = RunProgram({.argv = argv, .env = EnvOfProbe(body)}, "", most, kOutputMax);
  run.report = ReadFile(report, kReportMax);
  std::error_code ignored;
  std::filesystem::remove(report, ignored);
  PreflightResult result = JudgePreflight(body.gpu_uuids, run, body.preflight_min_bus_gbps);
  if (IsOverNodes(body) && !result.error.empty()) result.error += NodesText(body);
  if (!result.slow_links.empty()) result.elsewhere += NodesText(body);
  return result;
}

}  // namespace rt::worker
