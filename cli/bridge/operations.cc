// What a driver may ask of the bridge, one function per operation.
#include <algorithm>
#include <map>

#include "cli/bridge/bridge.h"
#include "cli/commands/common.h"
#include "cli/home.h"
#include "cli/live_view.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/tree.h"
#include "common/rpc/identity.h"
#include "common/rpc/remote_store.h"

namespace rt {
namespace {

constexpr int64_t kScreenMax = 1'000;  // Columns and rows.

using Experiments = v1::ExperimentService;
using Operation = absl::StatusOr<Json> (*)(HeadClient&, const Json&);

uint64_t ExperimentOf(const Json& arguments) {
  return static_cast<uint64_t>(arguments.GetInt("experiment_id"));
}

absl::StatusOr<v1::TrialRef> TrialOf(const Json& request) {
  std::optional<TrialId> id = ParseTrialId(request.GetString("trial_id"));
  if (!id.has_value()) return Invalid("trial_id must be a text such as \"1/0\"");
  return RefOf(*id);
}

absl::StatusOr<Json> Hello(HeadClient& client, const Json&) {
  const Context context = client.context();
  return Json::MakeObject({{"cluster", context.name},
                           {"version", RT_VERSION},
                           {"local_directory", context.local_directory.empty()
                                                   ? Json()
                                                   : Json(context.local_directory)}});
}

absl::StatusOr<Json> ExperimentCreate(HeadClient& client, const Json& request) {
  const Json* spec = request.Find("spec");
  if (spec == nullptr || !spec->is_object()) return Invalid("spec must be an object");
  v1::CreateExperimentRequest message;
  message.set_spec(spec->Dump());
  std::string key = request.GetString("key");
  message.set_request_key(key.empty() ? RandomHex(16) : key);
  RT_ASSIGN_OR_RETURN(auto reply,
                      client.Call<Experiments>(&Experiments::Stub::Create, message));
  return Json::MakeObject({{"experiment_id", reply.experiment()},
                           {"results_dir", reply.results_dir()},
                           {"attached", reply.attached()}});
}

absl::StatusOr<Json> ExperimentGet(HeadClient& client, const Json& request) {
  v1::ExperimentRef message;
  message.set_experiment(ExperimentOf(request));
  return client.Ask<Experiments>(&Experiments::Stub::Get, message);
}

absl::StatusOr<Json> ExperimentWait(HeadClient& client, const Json& request) {
  v1::WaitRequest message;
  message.set_experiment(ExperimentOf(request));
  if (const Json* seen = request.Find("seen"); seen != nullptr && !seen->is_null())
    message.set_seen(seen->is_string() ? seen->AsString() : seen->Dump());
  Millis hold = std::clamp<Millis>(request.GetInt("hold_ms", 10'000), 0, kBridgeHoldMax);
  message.set_hold_ms(hold);
  return client.Ask<Experiments>(&Experiments::Stub::Wait, message, hold);
}

absl::StatusOr<Json> ExperimentStop(HeadClient& client, const Json& request) {
  v1::StopRequest message;
  message.set_experiment(ExperimentOf(request));
  message.set_reason(request.GetString("reason", "stopped by the driver"));
  RT_RETURN_IF_ERROR(client.Call<Experiments>(&Experiments::Stub::Stop, message).status());
  return Json::MakeObject();
}

absl::StatusOr<Json> TrialList(HeadClient& client, const Json& request) {
  v1::ListTrialsRequest message;
  message.set_experiment(ExperimentOf(request));
  if (std::string from = request.GetString("from"); !from.empty()) {
    std::optional<TrialId> id = ParseTrialId(from);
    if (!id.has_value()) return Invalid("from must be a text such as \"1/0\"");
    *message.mutable_from() = RefOf(*id);
  }
  return client.Ask<Experiments>(&Experiments::Stub::ListTrials, message);
}

absl::StatusOr<Json> TrialGet(HeadClient& client, const Json& request) {
  RT_ASSIGN_OR_RETURN(v1::TrialRef message, TrialOf(request));
  return client.Ask<Experiments>(&Experiments::Stub::GetTrial, message);
}

absl::StatusOr<Json> TrialRows(HeadClient& client, const Json& request) {
  v1::ReadRowsRequest message;
  RT_ASSIGN_OR_RETURN(*message.mutable_trial(), TrialOf(request));
  message.set_after_iteration(request.GetDouble("after_iteration"));
  return client.Ask<Experiments>(&Experiments::Stub::ReadRows, message);
}

absl::StatusOr<Json> TrialStop(HeadClient& client, const Json& request) {
  v1::StopTrialRequest message;
  RT_ASSIGN_OR_RETURN(*message.mutable_trial(), TrialOf(request));
  message.set_reason(request.GetString("reason", "stopped by the driver"));
  RT_RETURN_IF_ERROR(client.Call<Experiments>(&Experiments::Stub::StopTrial, message).status());
  return Json::MakeObject();
}

absl::StatusOr<Json> TrialPause(HeadClient& client, const Json& request) {
  v1::StopTrialRequest message;
  RT_ASSIGN_OR_RETURN(*message.mutable_trial(), TrialOf(request));
  message.set_reason(request.GetString("reason", "paused by the driver"));
  RT_RETURN_IF_ERROR(client.Call<Experiments>(&Experiments::Stub::PauseTrial, message).status());
  return Json::MakeObject();
}

absl::StatusOr<Json> TrialResume(HeadClient& client, const Json& request) {
  RT_ASSIGN_OR_RETURN(v1::TrialRef message, TrialOf(request));
  RT_RETURN_IF_ERROR(client.Call<Experiments>(&Experiments::Stub::ResumeTrial, message).status());
  return Json::MakeObject();
}

absl::StatusOr<Json> ExperimentResume(HeadClient& client, const Json& request) {
  static const std::map<std::string, uint32_t> kinds = {{"keep", 0}, {"retry", 1}, {"restart", 2}};
  auto kind = kinds.find(request.GetString("failed", "keep"));
  if (kind == kinds.end()) return Invalid("failed must be keep, retry or restart");
  v1::ResumeRequest message;
  message.set_experiment(ExperimentOf(request));
  message.set_failed(kind->second);
  RT_RETURN_IF_ERROR(client.Call<Experiments>(&Experiments::Stub::Resume, message).status());
  return Json::MakeObject();
}

absl::StatusOr<Json> ClusterStatus(HeadClient& client, const Json&) {
  return client.Ask<v1::ClusterService>(&v1::ClusterService::Stub::Status, v1::Empty());
}

// One frame of the live screen (cli/render/live.h), so that a driver in another language need not
// draw it itself. With `paint`, `text` is what its terminal must be sent; `widths` goes into the
// next request as `over`.
absl::StatusOr<Json> ExperimentScreen(HeadClient& client, const Json& request) {
  RT_ASSIGN_OR_RETURN(Json experiment, ExperimentGet(client, request));
  RT_ASSIGN_OR_RETURN(LiveFacts facts, AskLiveFacts(client, std::move(experiment)));
  FrameSize size{.columns = static_cast<size_t>(std::clamp<int64_t>(
                     request.GetInt("columns", 80), 1, kScreenMax)),
                 .rows = static_cast<size_t>(std::clamp<int64_t>(
                     request.GetInt("rows", 24), 1, kScreenMax)),
                 .color = request.GetBool("color")};
  std::vector<std::string> lines = RenderExperimentFrame(facts, size);
  if (!request.GetBool("paint"))
    return Json::MakeObject({{"text", Join(lines, "\n")}, {"widths", Json::MakeArray()}});
  std::vector<size_t> over;
  if (const Json* widths = request.Find("over"); widths != nullptr && widths->is_array())
    for (const Json& width : widths->array())
      over.push_back(width.is_int() ? static_cast<size_t>(std::max<int64_t>(0, width.AsInt())) : 0);
  Json widths = Json::MakeArray();
  for (size_t width : WidthsOf(lines)) widths.Append(width);
  return Json::MakeObject({{"text", PaintText(lines, RowsAt(over, size.columns))},
                           {"widths", std::move(widths)}});
}

absl::StatusOr<Json> BlobPushDir(HeadClient& client, const Json& request) {
  std::string path = request.GetString("path");
  if (path.empty()) return Invalid("path is required");
  TreeOptions options{.honour_ignore_files = request.GetBool("honour_ignore_files")};
  if (options.honour_ignore_files) {
    absl::StatusOr<Home> home = Home::Open();
    if (home.ok()) options.exclude.push_back(home->root());
    options.exclude.push_back(ResultsRoot());
    std::erase(options.exclude, AbsolutePath(path));
  }
  RemoteStore store(client.BulkChannel());
  RT_ASSIGN_OR_RETURN(StoredTree tree, StoreTree(store, AbsolutePath(path), options));
  return Json::MakeObject({{"manifest", tree.manifest}});
}

absl::StatusOr<Json> BlobPullDir(HeadClient& client, const Json& request) {
  std::string manifest = request.GetString("manifest"), target = request.GetString("target");
  if (manifest.empty() || target.empty()) return Invalid("manifest and target are required");
  RemoteStore store(client.BulkChannel());
  RT_RETURN_IF_ERROR(RestoreTree(store, manifest, AbsolutePath(target)));
  return Json::MakeObject();
}

const std::map<std::string, Operation>& Operations() {
  static const std::map<std::string, Operation> operations = {
      {"hello", Hello},
      {"experiment_create", ExperimentCreate},
      {"experiment_get", ExperimentGet},
      {"experiment_wait", ExperimentWait},
      {"experiment_stop", ExperimentStop},
      {"experiment_screen", ExperimentScreen},
      {"trial_list", TrialList},
      {"trial_get", TrialGet},
      {"trial_rows", TrialRows},
      {"trial_stop", TrialStop},
      {"trial_pause", TrialPause},
      {"trial_resume", TrialResume},
      {"experiment_resume", ExperimentResume},
      {"cluster_status", ClusterStatus},
      {"blob_push_dir", BlobPushDir},
      {"blob_pull_dir", BlobPullDir}};
  return operations;
}

}  // namespace


bool IsWait(const Json& request) { return request.GetString("op") == "experiment_wait"; }

absl::StatusOr<Json> Operate(HeadClient& client, const Json& request) {
  std::string name = request.GetString("op");
  auto found = Operations().find(name);
  if (found != Operations().end()) return found->second(client, request);
  std::vector<std::string> known;
  for (const auto& [operation, function] : Operations()) known.push_back(operation);
  return Invalid("unknown op '" + name + "'", DidYouMean(name, known));
}

}  // namespace rt
