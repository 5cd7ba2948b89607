// `rt submit EXPERIMENT.yaml`: creates the experiment and waits for it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/commands/submit.h"
#include "cli/follow.h"
#include "cli/live_view.h"
#include "cli/written.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/identity.h"
#include "common/run/random.h"

namespace rt {
namespace {

// What the client knows and the head cannot: the interpreter, absolute paths, the bundle.
absl::StatusOr<Json> CompleteSpec(const Submission& submission, const Invocation& invocation,
                                  HeadClient& client, const Home& home) {
  Json json = submission.experiment->json;
  if (!invocation.name.empty()) json.Set("experiment", invocation.name);
  const Json* script = json.Find("script");
  if (script != nullptr && script->is_string() && script->AsString().ends_with(".py")) {
    RT_ASSIGN_OR_RETURN(std::string python, FindProgram("python3"));
    Json command = Json(Json::Array{python, *script});
    json.Erase("script");
    json.Set("command", std::move(command));
  }
  Json* command = json.Find("command");
  if (command != nullptr && command->is_array() && !command->array().empty() &&
      command->array()[0] == Json("python3")) {
    RT_ASSIGN_OR_RETURN(std::string python, FindProgram("python3"));
    command->array()[0] = Json(python);
  }
  std::vector<std::string> exclude;
  if (std::string results = json.GetString("results_dir"); !results.empty()) {
    json.Set("results_dir", AbsolutePath(results));
    exclude.push_back(AbsolutePath(results));
  }
  RT_ASSIGN_OR_RETURN(std::string bundle, PushWorkingDirectory(client, home, exclude,
                                                               invocation.verbose));
  json.Set("bundle", bundle);
  return json;
}

// A script below the working directory travels with it, so it must be there. What is found by the
// PATH, by `cwd` or by an absolute path is looked for on the nodes.
absl::Status CheckScript(const ExperimentFile& file) {
  const std::string script = file.json.GetString("script");
  const bool is_path = script.find('/') != std::string::npos || script.ends_with(".py");
  const bool travels = is_path && script[0] != '/' && file.json.GetString("cwd").empty();
  std::error_code error;
  if (!travels || std::filesystem::exists(script, error)) return absl::OkStatus();
  return file.document.At(Invalid("script: there is no file '" + script +
                                      "' in the working directory",
                                  "rt submit takes along what lies below the directory where it "
                                  "is called"), "script");
}

// Warns of what only the nodes can tell, and of what may be meant otherwise.
absl::Status CheckAndNote(HeadClient& client, const Invocation& invocation,
                          const ExperimentFile& file) {
  RT_ASSIGN_OR_RETURN(Json nodes, ListNodes(client));
  RT_RETURN_IF_ERROR(CheckResources(file, nodes["items"]));
  if (invocation.output != Output::kTable) return absl::OkStatus();
  for (const std::string& note : NotesFor(file, nodes["items"]))
    std::fprintf(stderr, "rt: note: %s\n", EscapeControl(note).c_str());
  return absl::OkStatus();
}

// The head names the key that it refused; the file says where that is.
absl::Status InFile(const YamlDocument& document, const absl::Status& refused) {
  const Position place = PositionOf(refused);
  const bool names_key = place.line == 0 && !place.file.empty();
  return names_key ? document.At(refused, place.file) : refused;
}

// What the head warns of: names in the spec that no row had, trials that reported nothing.
void PrintWarnings(const Json& experiment) {
  const Json* warnings = experiment.Find("warnings");
  if (warnings == nullptr || !warnings->is_array()) return;
  for (const Json& warning : warnings->array())
    if (warning.is_string())
      std::fprintf(stderr, "rt: warning: %s\n", EscapeControl(warning.AsString()).c_str());
}

// The last line of a traceback, which says most.
std::string LastLineOf(const std::string& message) {
  const std::string text(Trim(message));
  const size_t newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

// The last line that the trial printed, on standard error if it said anything there; "" when the
// node cannot be asked.
std::string LastPrinted(HeadClient& client, TrialId trial) {
  const std::atomic<bool> finished = true;
  for (const char* stream : {"stderr", "stdout"}) {
    const int fd = ::memfd_create("last-line", MFD_CLOEXEC);
    if (fd < 0) return "";
    absl::Status read = FollowLog(
        client,
        {.owner = Owner::Of(trial), .stream = stream, .follow = false, .tail_lines = 1, .fd = fd},
        finished);
    std::string line(limits::kPatternLineBytes, '\0');
    const ssize_t size = ::pread(fd, line.data(), line.size(), 0);
    ::close(fd);
    line.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (read.ok() && !Trim(line).empty()) return std::string(Trim(line));
  }
  return "";
}

// "exited with code 3; its last line: no", or the error that it reported.
std::string WhyFailed(HeadClient& client, TrialId id, const Json& trial) {
  const std::string reason = trial.GetString("reason");
  const Json* error = trial.Find("error");
  const std::string message =
      error != nullptr && error->is_object() ? error->GetString("message") : "";
  const std::string last = message == reason ? "" : LastLineOf(message);
  const std::string kind = error != nullptr && !last.empty() ? error->GetString("class") : "";
  if (!kind.empty()) return last.starts_with(kind) ? last : kind + ": " + last;
  // Without an exception the message is the end of what was printed on standard error.
  const std::string printed = last.empty() ? LastPrinted(client, id) : last;
  return printed.empty() ? reason : reason + "; its last line: " + printed;
}

void SayFirstFailed(HeadClient& client, uint64_t experiment) {
  std::optional<TrialId> first;
  EachTrialPage(client, experiment, [&](const Json::Array& trials) {
    for (const Json& trial : trials)
      if (!first.has_value() && trial.GetString("state") == "FAILED")
        first = ParseTrialId(trial.GetString("id"));
    return first.has_value() ? absl::CancelledError("found") : absl::OkStatus();
  }).IgnoreError();
  if (!first.has_value()) return;
  absl::StatusOr<Json> trial = GetTrial(client, *first);
  if (trial.ok())
    std::fprintf(stderr, "rt: trial %s failed: %s\n", ToString(*first).c_str(),
                 EscapeControl(WhyFailed(client, *first, *trial)).c_str());
}

void PrintOutcome(HeadClient& client, const Invocation& invocation, const Json& experiment,
                  bool is_here) {
  if (invocation.output == Output::kJson) {
    PrintJson(experiment);
    return;
  }
  std::string reason = experiment.GetString("reason");
  if (experiment.GetString("state") == "FAILED") {
    std::fprintf(stderr, "rt: the experiment failed: %s\n", EscapeControl(reason).c_str());
    SayFirstFailed(client, static_cast<uint64_t>(experiment.GetInt("id")));
  }
  // On another cluster the download says where it put them.
  if (std::string results = experiment.GetString("results_dir"); is_here && !results.empty())
    std::fprintf(stderr, "rt: results are in %s\n", EscapeControl(results).c_str());
  if (std::string problem = experiment.GetString("results_problem"); !problem.empty())
    std::fprintf(stderr, "rt: some results could not be written: %s\n",
                 EscapeControl(problem).c_str());
  const absl::StatusOr<std::optional<FrontTrials>> front = FrontOf(client, experiment);
  const bool has_front = front.ok() && front->has_value();
  if (!front.ok())
    std::fprintf(stderr, "rt: the front is not shown: %s\n",
                 EscapeControl(MessageOf(front.status())).c_str());
  if (has_front && !(*front)->empty())
    std::fprintf(stderr, "rt: the trials that no other one beats in all objectives:\n%s",
                 (*front)->Render().c_str());
  const Json* best = experiment.Find("best");
  if (best == nullptr || !best->is_object()) return;
  if (const Json* value = best->Find("value"))
    std::fprintf(stderr, "rt: best %s (step %s): trial %s, %s %s\n",
                 has_front ? "by the first objective alone" : "so far",
                 CellText(best->Find("step")).c_str(), best->GetString("trial_id").c_str(),
                 EscapeControl(experiment.GetString("metric")).c_str(), value->Dump().c_str());
  if (const Json* params = best->Find("params")) PrintJson(*params);
}

}  // namespace

void StopExperiment(HeadClient& client, uint64_t id) {
  v1::StopRequest request;
  request.set_experiment(id);
  request.set_reason("Ctrl-C in rt submit");
  client.Call<v1::ExperimentService>(&v1::ExperimentService::Stub::Stop, request).IgnoreError();
}

ExitCode SubmitExperiment(HeadClient& client, const Home& home, const Invocation& invocation,
                          const Submission& submission, Attendance& attendance) {
  RT_RETURN_IF_ERROR(CheckScript(*submission.experiment));
  RT_RETURN_IF_ERROR(CheckAndNote(client, invocation, *submission.experiment));
  RT_ASSIGN_OR_RETURN(Json spec, CompleteSpec(submission, invocation, client, home));
  v1::CreateExperimentRequest request;
  request.set_spec(spec.Dump());
  request.set_request_key(RandomHex(16));
  auto reply = client.Call<v1::ExperimentService>(&v1::ExperimentService::Stub::Create, request);
  if (!reply.ok()) return InFile(submission.experiment->document, reply.status());
  uint64_t id = reply->experiment();
  attendance.experiment = id;
  if (attendance.watcher != nullptr)
    attendance.watcher->Say("experiment " + std::to_string(id));
  if (invocation.detach) {
    if (invocation.output == Output::kJson) {
      RT_ASSIGN_OR_RETURN(Json experiment, GetExperiment(client, id));
      PrintJson(experiment);
    } else {
      std::printf("%s%llu\n", invocation.output == Output::kQuiet ? "" : "experiment ",
                  static_cast<unsigned long long>(id));
    }
    return kExitOk;
  }
  client.WaitLonger();
  attendance.interrupts.React([&] { StopExperiment(client, id); });
  LiveView view(client, 2, invocation, "rt: ");
  absl::StatusOr<Json> outcome = WatchExperiment(client, id, view);
  attendance.interrupts.Clear();
  if (!outcome.ok()) {
    std::fprintf(stderr, "rt: experiment %llu continues, but: %s\n",
                 static_cast<unsigned long long>(id),
                 EscapeControl(MessageOf(outcome.status())).c_str());
    return kExitOwnFailure;
  }
  PrintOutcome(client, invocation, *outcome, !client.context().local_directory.empty());
  PrintWarnings(*outcome);
  if (attendance.interrupts.happened()) return kExitInterrupted;
  return outcome->GetString("state") == "FAILED" ? kExitFailed : kExitOk;
}

}  // namespace rt
