// What a driver may ask of the bridge, one function per operation.
#include <algorithm>
#include <map>

#include "cli/bridge/bridge.h"
#include "cli/client/home.h"
#include "cli/client/nouns.h"
#include "cli/live_view.h"
#include "cli/render/unreachable.h"
#include "cli/snapshot.h"
#include "cli/teardown.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/tree.h"
#include "common/rpc/identity.h"
#include "common/rpc/remote_store.h"
#include "common/run/random.h"

namespace rt {
namespace {

constexpr int64_t kScreenMax = 1'000;  // Columns and rows.

using Operation = absl::StatusOr<Json> (*)(HeadClient&, const Json&);

absl::StatusOr<Json> Hello(HeadClient& client, const Json&) {
  const Context context = client.context();
  return Json::MakeObject({{"cluster", context.name},
                           {"version", RT_VERSION},
                           {"local_directory", context.local_directory.empty()
                                                   ? Json()
                                                   : Json(context.local_directory)}});
}

// Operations of the head itself; head/service/driver_ops.cc lists them.
absl::StatusOr<Json> Forward(HeadClient& client, const Json& request) {
  Json call = request;
  call.Erase("id");
  Millis hold = 0;
  if (IsWait(request)) {
    hold = std::clamp<Millis>(request.GetInt("hold_ms", 10'000), 0, kBridgeHoldMax);
    call.Set("hold_ms", hold);
  }
  const std::string op = request.GetString("op");
  const bool creates = op == "experiment_create" || op == "executor_request";
  if (creates && request.GetString("key").empty()) call.Set("key", RandomHex(16));
  v1::OperateRequest message;
  message.set_json(call.Dump());
  return client.Ask<v1::ExperimentService>(&v1::ExperimentService::Stub::Operate, message, hold);
}

// One frame of the live screen (cli/render/live.h), so that a driver in another language need not
// draw it itself. With `paint`, `text` is what its terminal must be sent; `widths` goes into the
// next request as `over`.
absl::StatusOr<Json> ExperimentScreen(HeadClient& client, const Json& request) {
  Json get = Json::MakeObject(
      {{"op", "experiment_get"}, {"experiment_id", request.GetInt("experiment_id")}});
  RT_ASSIGN_OR_RETURN(Json experiment, Forward(client, get));
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

// Runs `work` over the head's store. An unreachable head is the same error, within the same time,
// as in every other call.
template <class Work>
absl::StatusOr<Json> OnStore(HeadClient& client, Work work) {
  RT_RETURN_IF_ERROR(client.Reach());
  RemoteStore store(client.BulkChannel(), HeadClient::kRetryFor);
  absl::StatusOr<Json> done = work(store);
  if (!absl::IsUnavailable(done.status())) return done;
  const Context context = client.context();
  return Unreachable({context.name, context.address, context.local_directory},
                     MessageOf(done.status()));
}

absl::StatusOr<Json> BlobPushDir(HeadClient& client, const Json& request) {
  std::string path = request.GetString("path");
  if (path.empty()) return Invalid("path is required");
  const bool is_code = request.GetBool("honour_ignore_files");
  std::vector<std::string> exclude = {ResultsRoot(), Home::Path()};
  std::erase(exclude, AbsolutePath(path));
  return OnStore(client, [&](RemoteStore& store) -> absl::StatusOr<Json> {
    RT_ASSIGN_OR_RETURN(StoredTree tree, is_code ? StoreSnapshot(store, AbsolutePath(path), exclude)
                                                 : StoreTree(store, AbsolutePath(path), {}));
    return Json::MakeObject({{"manifest", tree.manifest}});
  });
}

absl::StatusOr<Json> BlobPullDir(HeadClient& client, const Json& request) {
  std::string manifest = request.GetString("manifest"), target = request.GetString("target");
  if (manifest.empty() || target.empty()) return Invalid("manifest and target are required");
  return OnStore(client, [&](RemoteStore& store) -> absl::StatusOr<Json> {
    RT_RETURN_IF_ERROR(RestoreTree(store, manifest, AbsolutePath(target)));
    return Json::MakeObject();
  });
}

// Where a private cluster's journal and checkpoints go when it ends; "" or absent: nowhere.
absl::StatusOr<Json> LocalKeep(HeadClient& client, const Json& request) {
  const std::string directory = client.context().local_directory;
  if (directory.empty()) return Invalid("only a private cluster ends with its driver");
  const std::string path = request.GetString("path");
  RT_RETURN_IF_ERROR(SetKeptState(directory, path.empty() ? "" : AbsolutePath(path)));
  return Json::MakeObject();
}

// Operations of this process, because they need files of this machine.
const std::map<std::string, Operation>& Operations() {
  static const std::map<std::string, Operation> operations = {
      {"hello", Hello},
      {"experiment_screen", ExperimentScreen},
      {"local_keep", LocalKeep},
      {"blob_push_dir", BlobPushDir},
      {"blob_pull_dir", BlobPullDir}};
  return operations;
}

}  // namespace

bool IsWait(const Json& request) {
  const std::string op = request.GetString("op");
  return op == "experiment_wait" || op == "driver_questions" || op == "executor_wait";
}

absl::StatusOr<Json> Operate(HeadClient& client, const Json& request) {
  auto found = Operations().find(request.GetString("op"));
  return found != Operations().end() ? found->second(client, request) : Forward(client, request);
}

}  // namespace rt
