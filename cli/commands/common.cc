#include "cli/commands/common.h"

#include <cstdio>
#include <set>
#include <thread>

#include "cli/follow.h"
#include "cli/selector.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

std::vector<uint64_t> IdsOf(const Json& reply) {
  std::vector<uint64_t> ids;
  const Json* items = reply.Find("items");
  if (items == nullptr || !items->is_array()) return ids;
  for (const Json& item : items->array()) ids.push_back(static_cast<uint64_t>(item.GetInt("id")));
  return ids;
}

// A name instead of a number: the newest item of that name.
std::string ByName(std::string selector, const Json& reply) {
  if (selector.empty()) return "last";
  const Json* items = reply.Find("items");
  if (items == nullptr || !items->is_array()) return selector;
  for (auto item = items->array().rbegin(); item != items->array().rend(); ++item)
    if (item->GetString("name") == selector) return std::to_string(item->GetInt("id"));
  return selector;
}

absl::Status AddTrials(HeadClient& client, uint64_t experiment, const std::string& numbers,
                       std::set<TrialId>& trials) {
  std::vector<uint64_t> known;
  RT_RETURN_IF_ERROR(EachTrialPage(client, experiment, [&](Json::Array& items) {
    for (const Json& item : items) known.push_back(static_cast<uint64_t>(item.GetInt("number")));
    return absl::OkStatus();
  }));
  std::string noun = "trial " + std::to_string(experiment) + "/";
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      SelectNumbers(numbers.empty() ? "last" : numbers, known, noun));
  for (uint64_t number : chosen) trials.insert({{experiment}, static_cast<uint32_t>(number)});
  return absl::OkStatus();
}

}  // namespace

bool IsTerminal(std::string_view state) {
  return state == "COMPLETED" || state == "STOPPED" || state == "FAILED" || state == "SUCCEEDED";
}

absl::StatusOr<std::unique_ptr<HeadClient>> ClientFor(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, invocation.cluster));
  RT_RETURN_IF_ERROR(client->Reach());
  return client;
}

absl::StatusOr<Json> ListExperiments(HeadClient& client) {
  return client.Ask<v1::ExperimentService>(&v1::ExperimentService::Stub::List, v1::Empty());
}
absl::StatusOr<Json> ListJobs(HeadClient& client) {
  return client.Ask<v1::JobService>(&v1::JobService::Stub::List, v1::Empty());
}
absl::Status EachTrialPage(HeadClient& client, uint64_t experiment,
                           const std::function<absl::Status(Json::Array& items)>& take) {
  v1::ListTrialsRequest request;
  request.set_experiment(experiment);
  while (true) {
    RT_ASSIGN_OR_RETURN(Json reply, client.Ask<v1::ExperimentService>(
                                        &v1::ExperimentService::Stub::ListTrials, request));
    Json* items = reply.Find("items");
    if (items == nullptr || !items->is_array())
      return absl::InternalError("the head's list of trials has no items");
    RT_RETURN_IF_ERROR(take(items->array()));
    std::optional<TrialId> next = ParseTrialId(reply.GetString("next"));
    if (!next.has_value()) return absl::OkStatus();
    *request.mutable_from() = RefOf(*next);
  }
}

absl::StatusOr<Json> ListTrials(HeadClient& client, uint64_t experiment) {
  Json all = Json::MakeArray();
  RT_RETURN_IF_ERROR(EachTrialPage(client, experiment, [&](Json::Array& items) {
    for (Json& item : items) all.Append(std::move(item));
    return absl::OkStatus();
  }));
  return Json::MakeObject({{"schema", 1}, {"items", std::move(all)}, {"next", Json()}});
}

absl::StatusOr<Json> ListNodes(HeadClient& client) {
  return client.Ask<v1::ClusterService>(&v1::ClusterService::Stub::ListNodes, v1::Empty());
}
absl::StatusOr<Json> GetNode(HeadClient& client, uint64_t id) {
  v1::GetNodeRequest request;
  request.set_name_or_id(std::to_string(id));
  return client.Ask<v1::ClusterService>(&v1::ClusterService::Stub::GetNode, request);
}
v1::TrialRef RefOf(TrialId id) {
  v1::TrialRef ref;
  ref.set_experiment(id.experiment.value);
  ref.set_number(id.number);
  return ref;
}
absl::StatusOr<Json> GetTrial(HeadClient& client, TrialId id) {
  return client.Ask<v1::ExperimentService>(&v1::ExperimentService::Stub::GetTrial, RefOf(id));
}
absl::StatusOr<Json> GetExperiment(HeadClient& client, uint64_t id) {
  v1::ExperimentRef request;
  request.set_experiment(id);
  return client.Ask<v1::ExperimentService>(&v1::ExperimentService::Stub::Get, request);
}
absl::StatusOr<Json> GetJob(HeadClient& client, uint64_t id) {
  v1::JobRef request;
  request.set_job(id);
  return client.Ask<v1::JobService>(&v1::JobService::Stub::Get, request);
}

absl::StatusOr<std::vector<uint64_t>> ChooseExperiments(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json reply, ListExperiments(client));
  return SelectNumbers(ByName(std::move(selector), reply), IdsOf(reply), "experiment");
}

absl::StatusOr<std::vector<uint64_t>> ChooseJobs(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json reply, ListJobs(client));
  const std::string text = WithoutKind(ByName(std::move(selector), reply), 'j');
  return SelectNumbers(text, IdsOf(reply), "job");
}

absl::StatusOr<std::vector<TrialId>> ChooseTrials(HeadClient& client, const std::string& text) {
  std::set<TrialId> trials;
  for (const TrialSelector& selector : SplitTrialSelectors(WithoutKind(text, 't'))) {
    if (!text.empty() && selector.numbers.empty())
      return Invalid("'" + text + "' names no trial", "write 3/0, 3/last or 3/all");
    RT_ASSIGN_OR_RETURN(std::vector<uint64_t> experiments,
                        ChooseExperiments(client, selector.experiment));
    for (uint64_t experiment : experiments)
      RT_RETURN_IF_ERROR(AddTrials(client, experiment, selector.numbers, trials));
  }
  return std::vector<TrialId>(trials.begin(), trials.end());
}

absl::StatusOr<std::vector<uint64_t>> ChooseNodes(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json list, ListNodes(client));
  std::vector<uint64_t> known;
  const bool is_id = WithoutKind(selector, 'n') != selector;
  bool name = !is_id && selector != "last" && selector != "all" &&
              selector.find_first_not_of("0123456789,-") != std::string::npos;
  bool found = false;
  if (selector.empty()) selector = "last";
  if (const Json* items = list.Find("items"))
    for (const Json& item : items->array()) {
      known.push_back(static_cast<uint64_t>(item.GetInt("id")));
      if (item.GetString("name") != selector) continue;
      selector = std::to_string(item.GetInt("id"));
      found = true;
    }
  if (name && !found) return NotFound("there is no node '" + selector + "'");
  return SelectNumbers(found ? selector : WithoutKind(selector, 'n'), known, "node");
}

void PrintJson(const Json& json) {
  // What the JSON text leaves as it is (C1, bidirectional) becomes \uNNNN: the same JSON.
  std::string text = EscapeControl(ValidUtf8(json.Dump())) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void SayMore(const Json& list) {
  if (const std::string next = list.GetString("next"); !next.empty())
    std::fprintf(stderr, "rt: there are more: --after %s\n", next.c_str());
}

int PrintList(const Invocation& invocation, Noun noun, const Json& list) {
  if (invocation.output == Output::kJson) {
    PrintJson(list);
    return kExitOk;
  }
  std::fputs(RenderItems(noun, list.Find("items")->array(), invocation).c_str(), stdout);
  if (invocation.output == Output::kTable) SayMore(list);
  return kExitOk;
}

int PrintItems(const Invocation& invocation, Noun noun, std::vector<Json> items) {
  if (invocation.output == Output::kJson) {
    // By what was asked for, not by how many there are today.
    bool one = items.size() == 1 && !SelectsMany(SelectorOf(invocation));
    PrintJson(one ? items[0]
                  : Json::MakeObject({{"schema", 1}, {"items", Json(items)}, {"next", nullptr}}));
    return kExitOk;
  }
  for (const Json& item : items) {
    if (invocation.output == Output::kQuiet)
      std::fputs(RenderItems(noun, {item}, invocation).c_str(), stdout);
    else std::fputs(RenderDetails(item).c_str(), stdout);
  }
  return kExitOk;
}

std::string FirstWord(const Invocation& invocation) {
  return invocation.words.empty() ? "" : invocation.words[0];
}

std::string SelectorOf(const Invocation& invocation) { return Join(invocation.words, ","); }

ExitCode CopyLogs(HeadClient& client, const Invocation& invocation, const Owner& owner) {
  std::atomic<bool> finished = !invocation.follow;
  FollowOptions options{.owner = owner, .rank = invocation.rank, .stream = "stdout",
                        .follow = invocation.follow, .tail_lines = invocation.tail, .fd = 1};
  absl::Status out = absl::OkStatus(), err = absl::OkStatus();
  bool both = invocation.stream.empty();
  std::thread errors;
  if (both || invocation.stream == "stderr") {
    FollowOptions other = options;
    other.stream = "stderr";
    other.fd = both ? 2 : 1;
    errors = std::thread([&, other] { err = FollowLog(client, other, finished); });
  }
  if (both || invocation.stream == "stdout") out = FollowLog(client, options, finished);
  if (errors.joinable()) errors.join();
  if (!out.ok()) return out;
  if (!err.ok()) return err;
  return kExitOk;
}

}  // namespace rt
