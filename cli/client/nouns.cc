#include "cli/client/nouns.h"

#include <set>

#include "cli/client/selector.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kNamesMax = 1'000;  // Of trials, from which one is suggested.

template <class Service, class Request>
using JsonCall = grpc::Status (Service::Stub::*)(grpc::ClientContext*, const Request&,
                                                 v1::JsonReply*);

std::vector<Selectable> SelectablesOf(const Json& reply) {
  std::vector<Selectable> known;
  const Json* items = reply.Find("items");
  if (items == nullptr || !items->is_array()) return known;
  for (const Json& item : items->array())  // A node that is on its way has no id.
    if (const int64_t id = item.GetInt("id"); id != 0)
      known.push_back({static_cast<uint64_t>(id), item.GetString("name")});
  return known;
}

// The page from `request.from` on. A head of a release without pages gives the whole list.
template <class Service>
absl::StatusOr<Json> AskPage(HeadClient& client, const v1::ListRequest& request,
                             JsonCall<Service, v1::ListRequest> page,
                             JsonCall<Service, v1::Empty> whole) {
  absl::StatusOr<Json> reply = client.Ask<Service>(page, request);
  if (absl::IsUnimplemented(reply.status())) reply = client.Ask<Service>(whole, v1::Empty());
  if (!reply.ok()) return reply;
  Json* items = reply->Find("items");
  if (items == nullptr || !items->is_array())
    return absl::InternalError("the head's list has no items");
  std::erase_if(items->array(), [&](const Json& item) {
    return static_cast<uint64_t>(item.GetInt("id")) < request.from();
  });
  const Json* next = reply->Find("next");
  const bool ends = next == nullptr || next->is_null();
  if (!ends && static_cast<uint64_t>(reply->GetInt("next")) <= request.from())
    return absl::InternalError("the head's list does not advance");
  return reply;
}

template <class Service>
absl::Status EachPage(HeadClient& client, const PageStart& start, const TakePage& take,
                      JsonCall<Service, v1::ListRequest> page, JsonCall<Service, v1::Empty> whole) {
  v1::ListRequest request;
  request.set_from(start.from);
  request.set_limit(start.limit);
  while (true) {
    RT_ASSIGN_OR_RETURN(Json reply, AskPage<Service>(client, request, page, whole));
    const int64_t next = reply.GetInt("next");
    if (!take(reply["items"].array()) || next == 0) return absl::OkStatus();
    request.set_from(static_cast<uint64_t>(next));
  }
}

using EachPageFn = absl::Status (*)(HeadClient&, const PageStart&, const TakePage&);
absl::StatusOr<Json> WholeList(HeadClient& client, EachPageFn each) {
  Json all = Json::MakeArray();
  RT_RETURN_IF_ERROR(each(client, {}, [&](Json::Array& items) {
    for (Json& item : items) all.Append(std::move(item));
    return true;
  }));
  return Json::MakeObject({{"schema", 1}, {"items", std::move(all)}, {"next", Json()}});
}

std::string OrLast(std::string selector) { return selector.empty() ? "last" : selector; }

absl::Status AddTrials(HeadClient& client, uint64_t experiment, const std::string& numbers,
                       std::set<TrialId>& trials) {
  std::vector<Selectable> known;
  RT_RETURN_IF_ERROR(EachTrialPage(client, experiment, [&](Json::Array& items) {
    for (const Json& item : items)
      known.push_back({static_cast<uint64_t>(item.GetInt("number")), item.GetString("name")});
    return absl::OkStatus();
  }));
  const SelectorNoun noun{"trial", 0, std::to_string(experiment) + "/"};
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, SelectNumbers(OrLast(numbers), known, noun));
  for (uint64_t number : chosen) trials.insert({{experiment}, static_cast<uint32_t>(number)});
  return absl::OkStatus();
}

// The newest trial of that name, in any experiment.
absl::Status AddNamed(HeadClient& client, const std::string& name, std::set<TrialId>& trials) {
  std::vector<std::string> known;
  std::optional<TrialId> found;
  RT_RETURN_IF_ERROR(EachTrialPage(client, 0, [&](Json::Array& items) {
    for (const Json& item : items) {
      const std::string other = item.GetString("name");
      if (other == name) found = ParseTrialId(item.GetString("id"));
      if (known.size() < kNamesMax) known.push_back(other);
    }
    return absl::OkStatus();
  }));
  if (!found.has_value())
    return NotFound("no trial matches '" + name + "'", DidYouMean(name, known));
  trials.insert(*found);
  return absl::OkStatus();
}

}  // namespace

bool IsTerminal(std::string_view state) {
  return state == "COMPLETED" || state == "STOPPED" || state == "FAILED" || state == "SUCCEEDED" ||
         state == "ENDED";
}

absl::StatusOr<std::unique_ptr<HeadClient>> ClientFor(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, invocation.cluster));
  RT_RETURN_IF_ERROR(client->Reach());
  return client;
}

absl::Status EachExperimentPage(HeadClient& client, const PageStart& start, const TakePage& take) {
  using Stub = v1::ExperimentService::Stub;
  return EachPage<v1::ExperimentService>(client, start, take, &Stub::ListPage, &Stub::List);
}
absl::Status EachJobPage(HeadClient& client, const PageStart& start, const TakePage& take) {
  using Stub = v1::JobService::Stub;
  return EachPage<v1::JobService>(client, start, take, &Stub::ListPage, &Stub::List);
}
absl::Status EachNodePage(HeadClient& client, const PageStart& start, const TakePage& take) {
  using Stub = v1::ClusterService::Stub;
  return EachPage<v1::ClusterService>(client, start, take, &Stub::ListNodePage, &Stub::ListNodes);
}
absl::Status EachExecutorPage(HeadClient& client, const PageStart& start, const TakePage& take) {
  uint64_t from = start.from;
  while (true) {
    RT_ASSIGN_OR_RETURN(
        Json reply,
        AskOperation(
            client,
            Json::MakeObject({{"op", "executor_list"}, {"from", from}, {"limit", start.limit}})));
    Json* items = reply.Find("items");
    if (items == nullptr || !items->is_array())
      return absl::InternalError("the head's list of executors has no items");
    const auto next = static_cast<uint64_t>(reply.GetInt("next"));
    if (!take(items->array()) || next <= from) return absl::OkStatus();
    from = next;
  }
}
absl::StatusOr<Json> ListExperiments(HeadClient& client) {
  return WholeList(client, EachExperimentPage);
}
absl::StatusOr<Json> ListJobs(HeadClient& client) { return WholeList(client, EachJobPage); }
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

absl::StatusOr<Json> ListNodes(HeadClient& client) { return WholeList(client, EachNodePage); }
absl::StatusOr<Json> GetNode(HeadClient& client, const std::string& name_or_id) {
  v1::GetNodeRequest request;
  request.set_name_or_id(name_or_id);
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

absl::StatusOr<Json> AskOperation(HeadClient& client, const Json& operation) {
  v1::OperateRequest request;
  request.set_json(operation.Dump());
  return client.Ask<v1::ExperimentService>(&v1::ExperimentService::Stub::Operate, request);
}
absl::StatusOr<Json> GetExecutor(HeadClient& client, uint64_t id) {
  return AskOperation(client, Json::MakeObject({{"op", "executor_get"}, {"executor", id}}));
}

absl::StatusOr<std::vector<uint64_t>> ChooseExperiments(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json reply, ListExperiments(client));
  return SelectNumbers(OrLast(std::move(selector)), SelectablesOf(reply), {"experiment", 0, ""});
}

absl::StatusOr<std::vector<uint64_t>> ChooseJobs(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json reply, ListJobs(client));
  return SelectNumbers(OrLast(std::move(selector)), SelectablesOf(reply), {"job", 'j', ""});
}

absl::StatusOr<std::vector<uint64_t>> ChooseExecutors(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json reply, WholeList(client, EachExecutorPage));
  return SelectNumbers(OrLast(std::move(selector)), SelectablesOf(reply), {"executor", 'x', ""});
}

absl::StatusOr<std::vector<TrialId>> ChooseTrials(HeadClient& client, const std::string& text) {
  std::set<TrialId> trials;
  for (const TrialSelector& selector : SplitTrialSelectors(OrLast(text))) {
    if (!selector.name.empty()) {
      RT_RETURN_IF_ERROR(AddNamed(client, selector.name, trials));
      continue;
    }
    if (selector.numbers.empty())
      return Invalid("'" + text + "' names no trial", "write 3/0, 3/last or 3/all");
    RT_ASSIGN_OR_RETURN(std::vector<uint64_t> experiments,
                        ChooseExperiments(client, selector.experiment));
    for (uint64_t experiment : experiments)
      RT_RETURN_IF_ERROR(AddTrials(client, experiment, selector.numbers, trials));
  }
  return std::vector<TrialId>(trials.begin(), trials.end());
}

absl::StatusOr<std::vector<uint64_t>> ChooseNodes(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json reply, ListNodes(client));
  return SelectNumbers(OrLast(std::move(selector)), SelectablesOf(reply), {"node", 'n', ""});
}

}  // namespace rt
