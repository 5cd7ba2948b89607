// `rt submit --nproc-per-node N SCRIPT`: a script written for torchrun, as an experiment of one
// trial with ranks (docs/adr/0028). Its output and its exit code are those of the command.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "cli/client/local_cluster.h"
#include "cli/commands/submit.h"
#include "cli/follow.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/identity.h"
#include "common/run/clock.h"
#include "common/run/random.h"
#include "common/spec/resources.h"

namespace rt {
namespace {

constexpr Millis kWaitHold = 10'000;
constexpr Millis kOutputMax = 20'000;  // For the rest of the output once all ranks have ended.
// Ranks whose output is printed: each takes two threads and two streams to the head.
constexpr uint32_t kRanksShown = 8;
constexpr int64_t kRestartsMax = 1'000'000;  // As max_failures of an experiment.

absl::StatusOr<int64_t> ReadCount(const char* flag, const std::string& text, int64_t least,
                                  int64_t most) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < least || count > most)
    return Invalid(std::string(flag) + ": must be a whole number from " + std::to_string(least) +
                   " to " + std::to_string(most) + ", not '" + text + "'");
  return count;
}

// torchrun writes a range of nodes as MIN:MAX.
absl::StatusOr<int64_t> ReadNodes(const std::string& text, int64_t most) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return ReadCount("--nnodes", text, 1, most);
  RT_ASSIGN_OR_RETURN(const int64_t least, ReadCount("--nnodes", text.substr(0, colon), 1, most));
  RT_ASSIGN_OR_RETURN(const int64_t greatest,
                      ReadCount("--nnodes", text.substr(colon + 1), 1, most));
  if (least != greatest)
    return Invalid("--nnodes: a range of nodes is not available in this release yet",
                   "what works: one number, such as --nnodes " + std::to_string(least));
  return least;
}

// "1:4": the fewest and the most.
absl::Status ReadBounds(const Invocation& invocation, int64_t most, RankPlan& plan) {
  const std::string& text = invocation.elastic;
  if (!invocation.nproc_per_node.empty() || !invocation.nnodes.empty())
    return Invalid("--elastic lets the head choose the ranks and their nodes",
                   "leave out --nproc-per-node and --nnodes");
  const size_t colon = text.find(':');
  if (colon == std::string::npos)
    return Invalid("--elastic: must be the fewest and the most ranks, not '" + text + "'",
                   "--elastic 1:4");
  RT_ASSIGN_OR_RETURN(plan.ranks_min, ReadCount("--elastic", text.substr(0, colon), 1, most));
  RT_ASSIGN_OR_RETURN(plan.ranks_max, ReadCount("--elastic", text.substr(colon + 1), 1, most));
  if (plan.ranks_min > plan.ranks_max)
    return Invalid(
        "--elastic: the fewest ranks are more than the most: '" + text + "'",
        "--elastic " + std::to_string(plan.ranks_max) + ":" + std::to_string(plan.ranks_min));
  return absl::OkStatus();
}

// The resources of one program, in the form that ParseResourceRequest takes. `cpus` is the default.
absl::StatusOr<Json> ReadResources(const std::string& text, double cpus) {
  absl::StatusOr<Resources> each = ParseResourcesFlag(text);
  if (!each.ok()) return Invalid("--" + MessageOf(each.status()), HintOf(each.status()));
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool names_cpu = lower.find("cpu") != std::string::npos;
  const auto amount = [](int64_t units) {
    return static_cast<double>(units) / static_cast<double>(kUnit);
  };
  Json json = Json::MakeObject();
  json.Set("cpu", names_cpu ? amount(each->cpu) : cpus);
  if (each->gpu != 0) json.Set("gpu", amount(each->gpu));
  if (each->memory != 0) json.Set("memory", each->memory);
  for (const auto& [name, units] : each->custom) json.Set(name, amount(units));
  return json;
}

// What torchrun sets and does not depend on the rank; the head adds the rest
// (head/core/desired.cc).
Json EnvFor(const RankPlan& plan) {
  Json env = Json::MakeObject({{"PYTHONUNBUFFERED", "1"},  // Output as it is made.
                               {"ROLE_NAME", "default"},
                               {"TORCHELASTIC_RUN_ID", RandomHex(16)},
                               {"TORCHELASTIC_MAX_RESTARTS", std::to_string(plan.max_restarts)},
                               {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                               {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}});
  if (const char* path = std::getenv("PYTHONPATH"); path != nullptr && *path != 0)
    env.Set("PYTHONPATH", path);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr && *threads != 0) env.Set("OMP_NUM_THREADS", threads);
  else if (plan.ranks_per_node > 1 || plan.is_elastic()) env.Set("OMP_NUM_THREADS", "1");
  return env;
}

// Passes arguments on unchanged. One that looks like a parameter reference ("${lr}") would be
// replaced, so its dollar sign becomes the value of a parameter.
Json CommandOf(const std::vector<std::string>& argv, Json& space) {
  Json command = Json::MakeArray();
  for (const std::string& argument : argv) {
    std::string escaped;
    size_t at = 0;
    for (size_t open = 0; (open = argument.find("${", at)) != std::string::npos; at = open + 1) {
      escaped += argument.substr(at, open - at) + "${dollar}";
      space.Set("dollar", "$");
    }
    command.Append(escaped + argument.substr(at));
  }
  return command;
}

Json SpecOfRanks(const Invocation& invocation, const Submission& submission,
                 const std::string& bundle) {
  const RankPlan& plan = *submission.ranks;
  Json space = Json::MakeObject();
  Json command = CommandOf(submission.argv, space);
  Json resources = plan.resources;
  if (plan.is_elastic()) {
    resources.Set("ranks", Json(Json::Array{plan.ranks_min, plan.ranks_max}));
  } else {
    resources.Set("ranks", plan.ranks());
    resources.Set("ranks_per_node", plan.ranks_per_node);
  }
  std::string name = invocation.name;
  if (name.empty()) name = std::filesystem::path(submission.script).stem().string();
  return Json::MakeObject({{"experiment", name},
                           {"preflight", invocation.preflight},
                           {"command", std::move(command)},
                           {"space", std::move(space)},
                           {"num_samples", 1},
                           {"resources", std::move(resources)},
                           {"max_failures", plan.max_restarts},
                           {"env", EnvFor(plan)},
                           {"bundle", bundle}});
}

// Copies what the first ranks print, until they have ended.
class RankOutput {
 public:
  RankOutput(HeadClient& client, TrialId trial, uint32_t ranks) : client_(client) {
    for (uint32_t rank = 0; rank < std::min(ranks, kRanksShown); ++rank) {
      for (const char* stream : {"stdout", "stderr"}) {
        ++streaming_;
        const int fd = std::string_view(stream) == "stdout" ? 1 : 2;
        threads_.emplace_back([this, trial, rank, stream, fd] {
          const absl::Status status = FollowLog(
              client_, {.owner = Owner::Of(trial), .rank = rank, .stream = stream, .fd = fd},
              finished_);
          if (!status.ok() && !client_.cancelled())
            std::fprintf(stderr, "rt: %s of rank %u: %s\n", stream, rank,
                         EscapeControl(MessageOf(status)).c_str());
          --streaming_;
        });
      }
    }
  }
  ~RankOutput() {
    for (std::thread& thread : threads_) thread.join();
  }
  RankOutput(const RankOutput&) = delete;

  // The ranks have ended: waits for what they printed last, or gives up.
  void Finish(Millis within) {
    finished_ = true;
    const Millis deadline = SteadyClock() + within;
    while (streaming_ > 0 && SteadyClock() < deadline) SleepFor(5);
    client_.Cancel();
  }

 private:
  HeadClient& client_;
  std::atomic<bool> finished_ = false;
  std::atomic<int> streaming_ = 0;
  std::vector<std::thread> threads_;
};

absl::StatusOr<Json> WaitForEnd(HeadClient& client, uint64_t experiment) {
  std::string seen;
  while (true) {
    v1::WaitRequest request;
    request.set_experiment(experiment);
    request.set_seen(seen);
    request.set_hold_ms(kWaitHold);
    RT_ASSIGN_OR_RETURN(Json reply, client.Ask<v1::ExperimentService>(
                                        &v1::ExperimentService::Stub::Wait, request, kWaitHold));
    if (const Json* version = reply.Find("version"))
      seen = version->is_string() ? version->AsString() : version->Dump();
    if (IsTerminal(reply.GetString("state"))) return reply;
  }
}

// The exit code of the rank that ended the last attempt; 128 + n for a signal.
int CodeOfRanks(const Json& trial) {
  if (trial.GetString("state") == "COMPLETED") return kExitOk;
  const Json* attempts = trial.Find("attempts");
  if (attempts == nullptr || !attempts->is_array() || attempts->array().empty())
    return kExitOwnFailure;
  const Json& last = attempts->array().back();
  if (const int64_t signal = last.GetInt("signal"); signal > 0)
    return static_cast<int>(128 + signal);
  const Json* code = last.Find("exit_code");
  if (code == nullptr || !code->is_int()) return kExitOwnFailure;
  return code->AsInt() != 0 ? static_cast<int>(code->AsInt()) : kExitFailed;
}

int AttendRanks(HeadClient& client, const Attendance& attendance, uint32_t ranks) {
  const uint64_t id = attendance.experiment;
  const TrialId trial{ExperimentId{id}, 0};
  if (ranks > kRanksShown)
    std::fprintf(stderr,
                 "rt: the output of ranks 0 to %u follows; of another one: "
                 "rt logs -f %llu/0 --rank %u\n",
                 kRanksShown - 1, static_cast<unsigned long long>(id), kRanksShown);
  absl::StatusOr<Json> ended = absl::UnavailableError("the head did not say how the ranks ended");
  {
    RankOutput output(client, trial, ranks);
    attendance.interrupts.React([&] {
      std::fprintf(stderr, "rt: stopping experiment %llu (Ctrl-C again leaves at once)\n",
                   static_cast<unsigned long long>(id));
      StopExperiment(client, id);
    });
    ended = WaitForEnd(client, id);
    if (ended.ok()) ended = GetTrial(client, trial);
    output.Finish(ended.ok() ? kOutputMax : 0);
  }
  attendance.interrupts.Clear();
  if (attendance.interrupts.happened()) return kExitInterrupted;
  if (!ended.ok()) {
    std::fprintf(stderr, "rt: experiment %llu continues, but: %s\n",
                 static_cast<unsigned long long>(id),
                 EscapeControl(MessageOf(ended.status())).c_str());
    return kExitOwnFailure;
  }
  const std::string reason = ended->GetString("reason");
  if (ended->GetString("state") != "COMPLETED" && !reason.empty())
    std::fprintf(stderr, "rt: trial %s: %s\n", ToString(trial).c_str(),
                 EscapeControl(reason).c_str());
  return CodeOfRanks(*ended);
}

}  // namespace

absl::StatusOr<std::optional<RankPlan>> ReadRankPlan(const Invocation& invocation) {
  const bool has_ranks = !invocation.nproc_per_node.empty() || !invocation.nnodes.empty() ||
                         !invocation.elastic.empty();
  if (!has_ranks && !invocation.max_restarts.empty())
    return Invalid("--max-restarts is for a script on several ranks",
                   "give --nproc-per-node as well");
  if (!has_ranks) return std::optional<RankPlan>();
  RankPlan plan;
  constexpr auto kMost = static_cast<int64_t>(limits::kBundlesMax);
  if (!invocation.elastic.empty()) RT_RETURN_IF_ERROR(ReadBounds(invocation, kMost, plan));
  if (!invocation.nproc_per_node.empty()) {
    RT_ASSIGN_OR_RETURN(plan.ranks_per_node,
                        ReadCount("--nproc-per-node", invocation.nproc_per_node, 1, kMost));
  }
  if (!invocation.nnodes.empty()) {
    RT_ASSIGN_OR_RETURN(plan.nodes, ReadNodes(invocation.nnodes, kMost));
  }
  if (!invocation.max_restarts.empty()) {
    RT_ASSIGN_OR_RETURN(plan.max_restarts,
                        ReadCount("--max-restarts", invocation.max_restarts, 0, kRestartsMax));
  }
  if (plan.ranks() > kMost)
    return Invalid(std::to_string(plan.ranks_per_node) + " ranks on each of " +
                   std::to_string(plan.nodes) + " nodes are " + std::to_string(plan.ranks()) +
                   " ranks; at most " + std::to_string(kMost) + " run together");
  RT_ASSIGN_OR_RETURN(plan.resources, ReadResources(invocation.resources, 1));
  return std::optional<RankPlan>(std::move(plan));
}

absl::StatusOr<Json> ReadJobResources(const Invocation& invocation) {
  return ReadResources(invocation.resources, 0);
}

ExitCode SubmitRanks(HeadClient& client, const Home& home, const Invocation& invocation,
                     const Submission& submission, Attendance& attendance) {
  RT_ASSIGN_OR_RETURN(const std::string bundle,
                      PushWorkingDirectory(client, home, {}, invocation.verbose));
  v1::CreateExperimentRequest request;
  request.set_spec(SpecOfRanks(invocation, submission, bundle).Dump());
  request.set_request_key(RandomHex(16));
  RT_ASSIGN_OR_RETURN(
      const v1::CreateExperimentReply reply,
      client.Call<v1::ExperimentService>(&v1::ExperimentService::Stub::Create, request));
  attendance.experiment = reply.experiment();
  const auto id = static_cast<unsigned long long>(reply.experiment());
  if (attendance.watcher != nullptr)
    attendance.watcher->Say("experiment " + std::to_string(reply.experiment()));
  if (invocation.detach) {
    if (invocation.output == Output::kJson) {
      RT_ASSIGN_OR_RETURN(Json experiment, GetExperiment(client, reply.experiment()));
      PrintJson(experiment);
    } else {
      std::printf("%s%llu\n", invocation.output == Output::kQuiet ? "" : "experiment ", id);
    }
    return kExitOk;
  }
  const RankPlan& plan = *submission.ranks;
  std::fprintf(stderr, "rt: experiment %llu, trial %llu/0 with %lld %s\n", id, id,
               static_cast<long long>(plan.ranks()), plan.ranks() == 1 ? "rank" : "ranks");
  client.WaitLonger();
  return AttendRanks(client, attendance, static_cast<uint32_t>(plan.ranks()));
}

}  // namespace rt
