#include "head/service/driver_ops.h"

#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/resources.h"
#include "head/service/translate.h"

namespace rt {
namespace {

struct Call {
  const DriverTools& tools;
  const Driver& driver;
  const Json& json;
};
using Handler = void (*)(const Call& call, JsonDone done);

ExperimentId ExperimentOf(const Json& json) {
  return {static_cast<uint64_t>(json.GetInt("experiment_id"))};
}
// `seen` as the last answer gave it; null and absent are the same.
std::string SeenOf(const Json& json) {
  const Json* seen = json.Find("seen");
  if (seen == nullptr || seen->is_null()) return "";
  return seen->is_string() ? seen->AsString() : seen->Dump();
}

std::string ReasonOfCall(const Json& json) {
  return ValidUtf8(json.GetString("reason"), limits::kReasonBytesMax);
}

// Runs `start` with the trial that "trial_id" names.
template <class Start>
void WithTrial(const Call& call, JsonDone done, Start start) {
  std::string text = call.json.GetString("trial_id");
  std::optional<TrialId> id = ParseTrialId(text);
  if (!id) return done(Invalid("'" + text + "' is not a trial's id", "write EXP/NUM, like 1/0"));
  start(*id, std::move(done));
}

// Runs `work` over the blobs on the io pool.
template <class Work>
void OnBlobs(const Call& call, JsonDone done, Work work) {
  call.tools.io([&blobs = call.tools.blobs, work = std::move(work), done = std::move(done)] {
    done(work(blobs));
  });
}

// Null in `made` is null in every field: nothing was created under the key.
JsonDone AnsweringCreated(JsonDone done) {
  return [done = std::move(done)](absl::StatusOr<Json> made) {
    if (!made.ok()) return done(made.status());
    Json answer = Json::MakeObject();
    for (auto [field, name] : {std::pair("experiment_id", "experiment"),
                               std::pair("results_dir", "results_dir"),
                               std::pair("attached", "attached")}) {
      const Json* value = made->is_null() ? nullptr : made->Find(name);
      answer.Set(field, value == nullptr ? Json() : *value);
    }
    done(std::move(answer));
  };
}
using CreateFn = void (Operations::*)(Operations::NewExperiment, JsonDone);
void WithSpec(const Call& call, CreateFn create, JsonDone done) {
  const Json* spec = call.json.Find("spec");
  if (spec == nullptr || !spec->is_object())
    return done(Invalid(call.json.GetString("op") + " needs a spec"));
  (call.tools.operations.*create)(
      {call.driver.owner, call.driver.job, spec->Dump(), call.json.GetString("key")},
      AnsweringCreated(std::move(done)));
}
void Create(const Call& call, JsonDone done) {
  WithSpec(call, &Operations::CreateExperiment, std::move(done));
}
void FindExperiment(const Call& call, JsonDone done) {
  WithSpec(call, &Operations::FindExperiment, std::move(done));
}
void Wait(const Call& call, JsonDone done) {
  call.tools.operations.WaitExperiment(
      ExperimentOf(call.json),
      {SeenOf(call.json), call.json.GetInt("hold_ms", 10'000), call.json.GetBool("until_end"),
       call.driver.job.value != 0 ? WaitRole::kDriver : WaitRole::kPerson},
      std::move(done));
}
void GetExperiment(const Call& call, JsonDone done) {
  call.tools.operations.GetExperiment(ExperimentOf(call.json), std::move(done));
}
void StopExperiment(const Call& call, JsonDone done) {
  call.tools.operations.StopExperiment(ExperimentOf(call.json), call.json.GetString("reason"),
                                       std::move(done));
}
void ListTrials(const Call& call, JsonDone done) {
  std::string text = call.json.GetString("from");
  std::optional<TrialId> from = ParseTrialId(text);
  if (!text.empty() && !from) return done(Invalid("'" + text + "' is not a trial's id"));
  call.tools.operations.ListTrials(ExperimentOf(call.json), from, std::move(done));
}
void GetTrial(const Call& call, JsonDone done) {
  WithTrial(call, std::move(done), [&](TrialId id, JsonDone next) {
    call.tools.operations.GetTrial(id, std::move(next));
  });
}
void TrialRows(const Call& call, JsonDone done) {
  WithTrial(call, std::move(done), [&](TrialId id, JsonDone next) {
    call.tools.operations.ReadRows(
        {id, call.json.GetDouble("after_iteration", -1), call.json.GetString("after")},
        std::move(next));
  });
}
void StopTrial(const Call& call, JsonDone done) {
  WithTrial(call, std::move(done), [&](TrialId id, JsonDone next) {
    call.tools.operations.StopTrial(id, call.json.GetString("reason"), std::move(next));
  });
}
void PauseTrial(const Call& call, JsonDone done) {
  WithTrial(call, std::move(done), [&](TrialId id, JsonDone next) {
    call.tools.operations.Change(
        input::PauseTrial{id, PauseCause::kScheduler, ReasonOfCall(call.json)}, std::move(next));
  });
}
void ResumeTrial(const Call& call, JsonDone done) {
  WithTrial(call, std::move(done), [&](TrialId id, JsonDone next) {
    call.tools.operations.Change(input::ResumeTrial{id}, std::move(next));
  });
}
void RetryTrial(const Call& call, JsonDone done) {
  WithTrial(call, std::move(done), [&](TrialId id, JsonDone next) {
    call.tools.operations.Change(input::RetryTrial{id, call.json.GetBool("from_scratch")},
                                 std::move(next));
  });
}
void ResumeExperiment(const Call& call, JsonDone done) {
  const auto failed = TrialActionFrom(call.json.GetString("failed", "keep"));
  const auto unfinished = TrialActionFrom(call.json.GetString("unfinished", "retry"));
  const auto finished = TrialActionFrom(call.json.GetString("finished", "keep"));
  for (const auto* action : {&failed, &unfinished, &finished})
    if (!action->ok()) return done(action->status());
  call.tools.operations.Change(
      input::ResumeExperiment{ExperimentOf(call.json), *failed, *unfinished, *finished,
                              ValidUtf8(call.json.GetString("trainable"), limits::kNameBytesMax)},
      std::move(done));
}
void ListPage(const Call& call, Operations::PageView view, JsonDone done) {
  const int64_t from = call.json.GetInt("from"), limit = call.json.GetInt("limit");
  if (from < 0 || limit < 0) return done(Invalid("from and limit must not be negative"));
  call.tools.operations.AskPage({static_cast<uint64_t>(from), static_cast<size_t>(limit)}, view,
                                std::move(done));
}
void ListExperiments(const Call& call, JsonDone done) {
  ListPage(call, ExperimentPageView, std::move(done));
}
// All of the cluster's, as `rt node list` has them.
void ListNodes(const Call& call, JsonDone done) {
  call.tools.operations.Ask(
      [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
        return NodeListView(core, facts);
      },
      std::move(done));
}
void ListJobs(const Call& call, JsonDone done) { ListPage(call, JobPageView, std::move(done)); }
// As much as fits into a message: drivers of 0.1 look there for a search that may be long over.
void Status(const Call& call, JsonDone done) {
  call.tools.operations.Ask(
      [](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
        return StatusView(core, facts, /*whole=*/true);
      },
      std::move(done));
}

void Attach(const Call& call, JsonDone done) {
  call.tools.operations.AttachDriver(ExperimentOf(call.json), call.json.GetString("driver"),
                                     std::move(done));
}
uint64_t CountOf(const Json& json, std::string_view key) {
  return static_cast<uint64_t>(std::max<int64_t>(0, json.GetInt(key)));
}
// The items of the array under `key`; none when it is absent.
const Json::Array& ListOf(const Json& json, std::string_view key) {
  static const Json::Array none;
  const Json* list = json.Find(key);
  return list != nullptr && list->is_array() ? list->array() : none;
}
void Questions(const Call& call, JsonDone done) {
  Operations::DriverView seen{CountOf(call.json, "session"), CountOf(call.json, "after"), {}};
  for (const Json& number : ListOf(call.json, "asked"))
    if (number.is_int()) seen.asked.push_back(static_cast<uint32_t>(number.AsInt()));
  call.tools.operations.ReadQuestions(ExperimentOf(call.json), std::move(seen),
                                      call.json.GetInt("hold_ms", 10'000), std::move(done));
}
void TakeDriverCall(const Call& call, JsonDone done) {
  const auto called_for = static_cast<Millis>(std::max(0.0, call.json.GetDouble("for_s")) * 1e3);
  call.tools.operations.TakeDriverCall(
      {.experiment = ExperimentOf(call.json),
       .session = CountOf(call.json, "session"),
       .function = ValidUtf8(call.json.GetString("function"), limits::kReasonBytesMax),
       .called_for = called_for},
      std::move(done));
}
void AnswerQuestions(const Call& call, JsonDone done) {
  input::AnswerQuestions answer;
  answer.experiment = ExperimentOf(call.json);
  answer.session = CountOf(call.json, "session");
  answer.from = CountOf(call.json, "from");
  answer.through = CountOf(call.json, "through");
  for (const Json& item : ListOf(call.json, "suggestions")) {
    const Json* params = item.Find("params");
    const Json* resources = item.Find("resources");
    answer.suggestions.push_back({static_cast<uint32_t>(CountOf(item, "number")),
                                  params == nullptr ? "" : params->Dump(),
                                  item.GetString("name"), item.GetString("directory"),
                                  resources == nullptr ? "" : resources->Dump()});
  }
  answer.search_finished = call.json.GetBool("search_finished");
  for (const Json& item : ListOf(call.json, "stops"))
    answer.stops.push_back({static_cast<uint32_t>(CountOf(item, "number")), item.GetBool("early"),
                            ReasonOfCall(item)});
  for (const Json& number : ListOf(call.json, "pauses"))
    if (number.is_int()) answer.pauses.push_back(static_cast<uint32_t>(number.AsInt()));
  for (const Json& number : ListOf(call.json, "resumes"))
    if (number.is_int()) answer.resumes.push_back(static_cast<uint32_t>(number.AsInt()));
  for (const Json& item : ListOf(call.json, "explored")) {
    const Json* params = item.Find("params");
    answer.explored.push_back({static_cast<uint32_t>(CountOf(item, "number")),
                               params == nullptr ? "" : params->Dump(),
                               ValidUtf8(item.GetString("failure"), limits::kReasonBytesMax)});
  }
  for (const Json& item : ListOf(call.json, "allocated")) {
    const Json* resources = item.Find("resources");
    answer.allocated.push_back({static_cast<uint32_t>(CountOf(item, "number")),
                                resources == nullptr ? "" : resources->Dump()});
  }
  answer.stop_all_reason = ValidUtf8(call.json.GetString("stop_all"), limits::kReasonBytesMax);
  answer.stop_all = !answer.stop_all_reason.empty();
  call.tools.operations.AnswerQuestions(std::move(answer), std::move(done));
}

// Equal bundles are one entry.
absl::StatusOr<std::vector<RequestedBundles>> BundlesOf(const Json& json) {
  std::map<Resources, uint64_t> counts;
  uint64_t total = 0;
  for (const Json& item : ListOf(json, "bundles")) {
    const Json* amounts = item.is_object() ? item.Find("resources") : nullptr;
    if (amounts == nullptr) return Invalid("each of the bundles needs its resources");
    RT_ASSIGN_OR_RETURN(Resources each, ParseResources(*amounts, "bundles/resources"));
    const int64_t count = item.GetInt("count", 1);
    if (each.IsZero() || count <= 0) continue;
    counts[each] += static_cast<uint64_t>(count);
    total += static_cast<uint64_t>(count);
    if (total > limits::kRequestedBundlesMax || counts.size() > limits::kRequestedShapesMax)
      return Invalid("more bundles are requested than a cluster could have",
                     "at most " + std::to_string(limits::kRequestedBundlesMax) + " bundles of " +
                         std::to_string(limits::kRequestedShapesMax) + " sizes");
  }
  std::vector<RequestedBundles> bundles;
  for (const auto& [each, count] : counts) bundles.push_back({each, count});
  return bundles;
}
void RequestResources(const Call& call, JsonDone done) {
  auto bundles = BundlesOf(call.json);
  if (!bundles.ok()) return done(bundles.status());
  call.tools.operations.Change(input::RequestResources{*std::move(bundles), call.driver.owner},
                               std::move(done));
}

void FindMissing(const Call& call, JsonDone done) {
  const Json* list = call.json.Find("digests");
  if (list == nullptr || !list->is_array() || list->array().size() > size_t{limits::kDigestsMax})
    return done(Invalid("blob_find_missing needs digests, at most 10000"));
  std::vector<std::string> digests;
  for (const Json& digest : list->array()) {
    if (!digest.is_string()) return done(Invalid("a digest is text"));
    digests.push_back(digest.AsString());
  }
  OnBlobs(call, std::move(done),
          [digests = std::move(digests)](BlobStore& blobs) -> absl::StatusOr<Json> {
            RT_ASSIGN_OR_RETURN(auto missing, blobs.FindMissing(digests));
            Json absent = Json::MakeArray();
            for (auto& digest : missing) absent.Append(std::move(digest));
            return Json::MakeObject({{"digests", std::move(absent)}});
          });
}
void PutChunk(const Call& call, JsonDone done) {
  std::optional<std::string> data = Base64Decode(call.json.GetString("data_b64"));
  if (!data) return done(Invalid("data_b64 is not base64"));
  if (auto size = CheckSize("a chunk", data->size(), limits::kChunkBytes); !size.ok())
    return done(size);
  OnBlobs(call, std::move(done),
          [data = std::move(*data), digest = call.json.GetString("digest")](
              BlobStore& blobs) -> absl::StatusOr<Json> {
            RT_RETURN_IF_ERROR(blobs.PutChunk(digest, data));
            return Json::MakeObject({{"digest", digest}});
          });
}
void PutManifest(const Call& call, JsonDone done) {
  std::optional<std::string> text = Base64Decode(call.json.GetString("text_b64"));
  if (!text) return done(Invalid("text_b64 is not base64"));
  OnBlobs(call, std::move(done),
          [text = std::move(*text)](BlobStore& blobs) -> absl::StatusOr<Json> {
            RT_ASSIGN_OR_RETURN(std::string digest, blobs.PutManifest(text));
            return Json::MakeObject({{"digest", digest}});
          });
}
void GetManifest(const Call& call, JsonDone done) {
  OnBlobs(call, std::move(done),
          [digest = call.json.GetString("digest")](BlobStore& blobs) -> absl::StatusOr<Json> {
            RT_ASSIGN_OR_RETURN(std::string text, blobs.GetManifest(digest));
            return Json::MakeObject({{"text_b64", Base64Encode(text)}});
          });
}
void GetChunk(const Call& call, JsonDone done) {
  OnBlobs(call, std::move(done),
          [digest = call.json.GetString("digest")](BlobStore& blobs) -> absl::StatusOr<Json> {
            RT_ASSIGN_OR_RETURN(std::string bytes, blobs.GetChunk(digest));
            return Json::MakeObject({{"data_b64", Base64Encode(bytes)}});
          });
}

SessionKey SessionOf(const Call& call) {
  return {call.driver.opener.owner, call.driver.owner, call.json.GetString("session")};
}
void RequestExecutors(const Call& call, JsonDone done) {
  const Json* spec = call.json.Find("spec");
  if (spec == nullptr || !spec->is_object()) return done(Invalid("executor_request needs a spec"));
  call.tools.operations.RequestExecutors(
      {call.driver.owner, call.json.GetString("session"), call.driver.opener,
       call.json.GetString("key"), call.json.GetInt("count", 1), spec->Dump()},
      std::move(done));
}
void WaitExecutors(const Call& call, JsonDone done) {
  call.tools.operations.WaitExecutors(
      SessionOf(call),
      {SeenOf(call.json), call.json.GetInt("hold_ms", 10'000), call.json.GetBool("yields"),
       call.json.GetBool("only_changes")},
      std::move(done));
}
void ReleaseExecutors(const Call& call, JsonDone done) {
  const Json* list = call.json.Find("executors");
  input::ReleaseExecutors release{.owner = call.driver.owner,
                                  .session = call.json.GetString("session"),
                                  .opener = call.driver.opener.owner,
                                  .executors = {},
                                  .all = list == nullptr || list->is_null(),
                                  .reason = ReasonOfCall(call.json)};
  for (const Json& id : ListOf(call.json, "executors")) {
    if (!id.is_int()) return done(Invalid("executors must be a list of their numbers"));
    release.executors.push_back({static_cast<uint64_t>(id.AsInt())});
  }
  if (release.reason.empty()) release.reason = "released by its driver";
  call.tools.operations.Change(std::move(release), std::move(done));
}

// For a daemon that is to reach the executor for the caller.
void RouteExecutor(const Call& call, JsonDone done) {
  const RouteAsk ask{{CountOf(call.json, "executor")}, call.driver.owner, call.driver.opener.owner};
  call.tools.operations.Ask(
      [ask](const Core& core, const HeadFacts&) { return ExecutorRoute(core, ask); },
      std::move(done));
}
void ListExecutors(const Call& call, JsonDone done) {
  ListPage(call, ExecutorPageView, std::move(done));
}
void GetExecutor(const Call& call, JsonDone done) {
  const ExecutorId id{CountOf(call.json, "executor")};
  call.tools.operations.Ask(
      [id](const Core& core, const HeadFacts& facts) { return ExecutorView(core, facts, id); },
      std::move(done));
}
void StopExecutor(const Call& call, JsonDone done) {
  std::string reason = ReasonOfCall(call.json);
  if (reason.empty()) reason = "stopped by " + call.driver.owner;
  call.tools.operations.Change(
      input::StopExecutor{{CountOf(call.json, "executor")}, {}, {}, std::move(reason)},
      std::move(done));
}
void GetActor(const Call& call, JsonDone done) {
  call.tools.operations.Ask(
      [user = call.driver.owner, name = call.json.GetString("name")](
          const Core& core, const HeadFacts& facts) { return ActorView(core, facts, user, name); },
      std::move(done));
}
// Of the caller; of a person who asks for all of them, everybody's.
void ListActors(const Call& call, JsonDone done) {
  const bool is_outside = call.driver.opener.owner.kind == Owner::Kind::kNone;
  const bool all = is_outside && call.json.GetBool("all");
  call.tools.operations.Ask(
      [user = all ? "" : call.driver.owner](const Core& core, const HeadFacts& facts)
          -> absl::StatusOr<Json> { return ActorListView(core, facts, user); },
      std::move(done));
}
void KillActor(const Call& call, JsonDone done) {
  std::string reason = ReasonOfCall(call.json);
  if (reason.empty()) reason = "killed by " + call.driver.owner;
  const std::string name = call.json.GetString("name");
  if (name.empty()) return done(Invalid("actor_kill needs the actor's name"));
  call.tools.operations.Change(input::StopExecutor{{}, call.driver.owner, name, std::move(reason)},
                               std::move(done));
}

// What tasks need, and nothing that could disturb the search or the cluster.
const std::set<std::string>& OfTasks() {
  static const std::set<std::string> names = {
      "executor_request",  "executor_wait",     "executor_release", "executor_route",
      "actor_get",         "actor_list",        "actor_kill",       "cluster_status",
      "node_list",         "blob_find_missing", "blob_put_chunk",   "blob_put_manifest",
      "blob_get_manifest", "blob_get_chunk"};
  return names;
}
absl::Status CheckAllowed(const Driver& driver, const std::string& op) {
  const Owner& owner = driver.opener.owner;
  if (owner.kind == Owner::Kind::kNone || owner.is_job() || OfTasks().contains(op))
    return absl::OkStatus();
  return WithHint(absl::PermissionDeniedError(op + " is not for " + Describe(owner)),
                  "trials and executors may use tasks and actors; a job may do this");
}

const std::map<std::string, Handler>& Handlers() {
  static const std::map<std::string, Handler> handlers = {
      {"experiment_create", Create},
      {"experiment_find", FindExperiment},
      {"experiment_get", GetExperiment},
      {"experiment_wait", Wait},
      {"experiment_stop", StopExperiment},
      {"experiment_resume", ResumeExperiment},
      {"trial_list", ListTrials},
      {"trial_get", GetTrial},
      {"trial_rows", TrialRows},
      {"trial_stop", StopTrial},
      {"trial_pause", PauseTrial},
      {"trial_resume", ResumeTrial},
      {"trial_retry", RetryTrial},
      {"cluster_status", Status},
      {"resources_request", RequestResources},
      {"executor_request", RequestExecutors},
      {"executor_wait", WaitExecutors},
      {"executor_release", ReleaseExecutors},
      {"executor_route", RouteExecutor},
      {"executor_list", ListExecutors},
      {"executor_get", GetExecutor},
      {"executor_stop", StopExecutor},
      {"actor_get", GetActor},
      {"actor_list", ListActors},
      {"actor_kill", KillActor},
      {"experiment_list", ListExperiments},
      {"job_list", ListJobs},
      {"node_list", ListNodes},
      {"blob_find_missing", FindMissing},
      {"blob_put_chunk", PutChunk},
      {"blob_put_manifest", PutManifest},
      {"blob_get_manifest", GetManifest},
      {"blob_get_chunk", GetChunk},
      {"driver_attach", Attach},
      {"driver_questions", Questions},
      {"driver_call", TakeDriverCall},
      {"driver_answer", AnswerQuestions},
  };
  return handlers;
}

}  // namespace

Json DriverAnswer(const absl::StatusOr<Json>& result) {
  if (result.ok()) return Json::MakeObject({{"ok", true}, {"result", *result}});
  std::string hint = HintOf(result.status());
  Json error = Json::MakeObject({{"code", absl::StatusCodeToString(result.status().code())},
                                 {"message", MessageOf(result.status())},
                                 {"hint", hint.empty() ? Json() : Json(hint)}});
  return Json::MakeObject({{"ok", false}, {"error", std::move(error)}});
}

void RunDriverOp(const DriverTools& tools, const Driver& driver, const std::string& json,
                 JsonDone done) {
  StartDriverOp(tools, driver, json, [done = std::move(done)](const absl::StatusOr<Json>& result) {
    done(DriverAnswer(result));
  });
}

void StartDriverOp(const DriverTools& tools, const Driver& driver, const std::string& json,
                   JsonDone done) {
  absl::StatusOr<Json> parsed = Json::Parse(json);
  if (!parsed.ok()) return done(parsed.status());
  if (!parsed->is_object()) return done(Invalid("a driver operation is a JSON object"));
  std::string op = parsed->GetString("op");
  auto handler = Handlers().find(op);
  if (handler == Handlers().end()) {
    std::vector<std::string> known;
    for (const auto& [name, function] : Handlers()) known.push_back(name);
    return done(Invalid("unknown op '" + op + "'", DidYouMean(op, known)));
  }
  if (absl::Status allowed = CheckAllowed(driver, op); !allowed.ok()) return done(allowed);
  handler->second({tools, driver, *parsed}, std::move(done));
}

}  // namespace rt
