// `rt submit SCRIPT`: a Python driver or any executable as a job of the head.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/client/local_cluster.h"
#include "cli/commands/submit.h"
#include "cli/follow.h"
#include "cli/render/job_end.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/identity.h"
#include "common/run/clock.h"
#include "common/run/random.h"
#include "common/spec/item_name.h"

namespace rt {
namespace {

constexpr Millis kHold = 10'000;
constexpr Millis kDrainMax = 20'000;  // For the rest of the output once the job has ended.

Json SpecOf(const Invocation& invocation, const Submission& submission,
            const std::string& bundle) {
  Json list = Json::MakeArray();
  for (const std::string& argument : submission.argv) list.Append(argument);
  Json env = Json::MakeObject({{"PYTHONUNBUFFERED", "1"}});  // Output as it is made.
  if (const char* path = std::getenv("PYTHONPATH"); path != nullptr && *path != 0)
    env.Set("PYTHONPATH", path);
  std::string name = invocation.name.empty()
                         ? std::filesystem::path(submission.script).filename().string()
                         : invocation.name;
  // A script may have any name, such as ".sweep.sh" or "1"; a job may not.
  if (invocation.name.empty() && !CheckItemName("name", name, 'j').ok()) name = "script-" + name;
  Json spec = Json::MakeObject(
      {{"name", name}, {"argv", list}, {"bundle", bundle}, {"env", std::move(env)}});
  if (!invocation.resources.empty()) spec.Set("resources", submission.resources);
  if (invocation.preflight) spec.Set("preflight", true);
  return spec;
}

void StopJob(HeadClient& client, uint64_t job) {
  v1::StopJobRequest request;
  request.set_job(job);
  request.set_reason("Ctrl-C in rt submit");
  client.Call<v1::JobService>(&v1::JobService::Stub::Stop, request).IgnoreError();
}

// Until the job is terminal; its last state.
absl::StatusOr<Json> WaitForJob(HeadClient& client, uint64_t id) {
  std::string seen;
  while (true) {
    v1::WaitJobRequest request;
    request.set_job(id);
    request.set_seen_state(seen);
    request.set_hold_ms(kHold);
    RT_ASSIGN_OR_RETURN(Json job, client.Ask<v1::JobService>(&v1::JobService::Stub::Wait,
                                                             request, kHold));
    seen = job.GetString("state");
    if (IsTerminal(seen)) return job;
  }
}

int OwnFailure(const absl::Status& status, uint64_t id) {
  std::fprintf(stderr, "rt: job %llu continues, but: %s\n", static_cast<unsigned long long>(id),
               EscapeControl(MessageOf(status)).c_str());
  return kExitOwnFailure;
}

// Why the last attempt did not start its program; "" when it did. Without that reason the exit
// code 127 would look like the script's own.
std::string WhyNotStarted(HeadClient& client, uint64_t id) {
  absl::StatusOr<Json> job = GetJob(client, id);
  const Json* attempts = job.ok() ? job->Find("attempts") : nullptr;
  if (attempts == nullptr || !attempts->is_array() || attempts->array().empty()) return "";
  const Json& last = attempts->array().back();
  return last.GetString("outcome") == "LAUNCH_FAILED" ? last.GetString("reason") : "";
}

// The job's experiments that are not over.
std::vector<uint64_t> OpenExperiments(HeadClient& client, const Json& job) {
  std::vector<uint64_t> open;
  const Json* made = job.Find("experiment_ids");
  if (made == nullptr || !made->is_array()) return open;
  for (const Json& id : made->array()) {
    if (!id.is_int()) continue;
    absl::StatusOr<Json> experiment = GetExperiment(client, static_cast<uint64_t>(id.AsInt()));
    if (experiment.ok() && !IsTerminal(experiment->GetString("state")))
      open.push_back(static_cast<uint64_t>(id.AsInt()));
  }
  return open;
}

int CodeOfJob(const Json& job) {
  const Json* code = job.Find("exit_code");
  if (int64_t signal = job.GetInt("signal"); signal > 0) return static_cast<int>(128 + signal);
  if (code != nullptr && code->is_int()) return static_cast<int>(code->AsInt());
  return job.GetString("state") == "SUCCEEDED" ? kExitOk : kExitOwnFailure;
}

// Streams the output until the job has ended, and waits for it.
int Attend(HeadClient& client, const Attendance& attendance) {
  Interrupts& interrupts = attendance.interrupts;
  const uint64_t id = attendance.job;
  std::atomic<bool> finished = false;
  std::atomic<int> streaming = 2;
  auto follow = [&](const char* stream, int fd) {
    FollowOptions options{.owner = Owner::Of(JobId{id}), .stream = stream, .fd = fd};
    absl::Status status = FollowLog(client, options, finished);
    if (!status.ok() && !client.cancelled())
      std::fprintf(stderr, "rt: %s of the job: %s\n", stream,
                   EscapeControl(MessageOf(status)).c_str());
    --streaming;
  };
  std::thread out(follow, "stdout", 1), err(follow, "stderr", 2);
  interrupts.React([&] {
    std::fprintf(stderr, "rt: stopping job %llu (Ctrl-C again leaves at once)\n",
                 static_cast<unsigned long long>(id));
    StopJob(client, id);
  });
  absl::StatusOr<Json> job = WaitForJob(client, id);
  const std::string not_started = job.ok() ? WhyNotStarted(client, id) : "";
  // The watcher of --stop ends them with the cluster.
  const bool may_go_on = job.ok() && attendance.watcher == nullptr;
  const std::vector<uint64_t> open =
      may_go_on ? OpenExperiments(client, *job) : std::vector<uint64_t>();
  finished = true;
  Millis deadline = SteadyClock() + (job.ok() ? kDrainMax : 0);
  while (streaming > 0 && SteadyClock() < deadline) SleepFor(5);
  client.Cancel();
  out.join();
  err.join();
  interrupts.Clear();
  if (interrupts.happened()) return kExitInterrupted;
  if (!not_started.empty())
    std::fprintf(stderr, "rt: the job could not be started: %s\n",
                 EscapeControl(not_started).c_str());
  else if (const std::string end = job.ok() ? JobEndText(*job, open) : ""; !end.empty())
    std::fprintf(stderr, "rt: %s\n", EscapeControl(end).c_str());
  return job.ok() ? CodeOfJob(*job) : OwnFailure(job.status(), id);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ArgvOf(const Submission& submission) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string& script = submission.script;
  bool plain_name = script.find('/') == std::string::npos;
  bool exists = fs::is_regular_file(script, error);
  std::vector<std::string> argv;
  if (!exists && plain_name && !script.ends_with(".py")) {
    absl::StatusOr<std::string> program = FindProgram(script);
    if (!program.ok()) return Invalid(script + ": no such file, nor a program in the PATH");
    argv = {*program};
  } else if (!exists) {
    return Invalid(script + ": no such file");
  } else {
    std::string absolute = AbsolutePath(script);
    std::string root = fs::current_path(error).string();
    bool inside = absolute.starts_with(root == "/" ? root : root + "/");
    std::string relative = fs::path(absolute).lexically_relative(root).string();
    if (script.ends_with(".py")) {
      RT_ASSIGN_OR_RETURN(std::string python, FindProgram("python3"));
      argv = {python, inside ? relative : absolute};
    } else if (access(script.c_str(), X_OK) == 0) {
      argv = {inside ? "./" + relative : absolute};
    } else {
      return Invalid(script + ": neither a Python script nor executable",
                     "chmod +x " + script);
    }
  }
  argv.insert(argv.end(), submission.arguments.begin(), submission.arguments.end());
  return argv;
}

ExitCode SubmitJob(HeadClient& client, const Home& home, const Invocation& invocation,
                   const Submission& submission, Attendance& attendance) {
  RT_ASSIGN_OR_RETURN(std::string bundle,
                      PushWorkingDirectory(client, home, {}, invocation.verbose));
  v1::SubmitJobRequest request;
  request.set_spec(SpecOf(invocation, submission, bundle).Dump());
  request.set_request_key(RandomHex(16));
  RT_ASSIGN_OR_RETURN(v1::SubmitJobReply reply, client.Call<v1::JobService>(
                                                    &v1::JobService::Stub::Submit, request));
  uint64_t id = reply.job();
  attendance.job = id;
  if (attendance.watcher != nullptr) attendance.watcher->Say("job " + std::to_string(id));
  if (!invocation.detach) {
    std::fprintf(stderr, "rt: job %llu\n", static_cast<unsigned long long>(id));
    client.WaitLonger();
    return Attend(client, attendance);
  }
  if (invocation.output == Output::kJson) {
    RT_ASSIGN_OR_RETURN(Json job, GetJob(client, id));
    PrintJson(job);
  } else {
    std::printf("%s%llu\n", invocation.output == Output::kQuiet ? "" : "job ",
                static_cast<unsigned long long>(id));
  }
  return kExitOk;
}

}  // namespace rt
