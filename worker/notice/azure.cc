#include "worker/notice/azure.h"

#include "absl/status/status.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt::worker {
namespace {

constexpr char kEvents[] = "/metadata/scheduledevents?api-version=2020-07-01";
constexpr char kName[] = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

bool Concerns(const Json& event, const std::string& machine) {
  const Json* resources = event.Find("Resources");
  if (resources == nullptr || !resources->is_array()) return false;
  for (const Json& resource : resources->array())
    if (resource.is_string() && resource.AsString() == machine) return true;
  return false;
}

}  // namespace

absl::StatusOr<AzureEvents> ParseAzureEvents(const std::string& body, const std::string& machine) {
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(body));
  const Json* events = json.is_object() ? json.Find("Events") : nullptr;
  if (events == nullptr || !events->is_array())
    return Invalid("no scheduled events: " + body.substr(0, 200));
  static const std::set<std::string> kEnding = {"Preempt", "Terminate", "Reboot", "Redeploy"};
  AzureEvents found;
  for (const Json& event : events->array()) {
    if (!event.is_object()) return Invalid("a scheduled event is no object");
    const std::string kind = event.GetString("EventType"), id = event.GetString("EventId");
    if (!kEnding.contains(kind) || id.empty() || !Concerns(event, machine)) continue;
    if (event.GetString("EventStatus") == "Completed") continue;
    found.ids.insert(id);
    const Notice notice{"scheduled event: " + kind, ParseHttpDate(event.GetString("NotBefore"))};
    // One that has no time has started.
    if (!found.notice || notice.deadline == 0 ||
        (found.notice->deadline != 0 && notice.deadline < found.notice->deadline))
      found.notice = notice;
  }
  return found;
}

absl::Status AzureNotices::FindName() {
  RT_ASSIGN_OR_RETURN(HttpAnswer answer, metadata_.Get(kName, {{"Metadata", "true"}}));
  machine_ = std::string(Trim(answer.body));
  if (answer.status == 200 && !machine_.empty()) return absl::OkStatus();
  machine_.clear();
  return absl::UnavailableError("the metadata server does not know this machine's name");
}

absl::StatusOr<std::optional<Notice>> AzureNotices::Look(Millis) {
  if (machine_.empty()) RT_RETURN_IF_ERROR(FindName());
  // The first request of all turns the service on, which may take two minutes.
  RT_ASSIGN_OR_RETURN(HttpAnswer answer,
                      metadata_.Get(kEvents, {{"Metadata", "true"}}, kLookMax - 1'000));
  if (answer.status != 200) return absl::UnavailableError("there is no list of scheduled events");
  RT_ASSIGN_OR_RETURN(AzureEvents events, ParseAzureEvents(answer.body, machine_));
  standing_ = std::move(events.ids);
  return std::move(events.notice);
}

absl::Status AzureNotices::Acknowledge() {
  for (const std::string& id : standing_) {
    if (acknowledged_.contains(id)) continue;
    Json request = Json::MakeArray();
    request.Append(Json::MakeObject({{"EventId", id}}));
    const std::string body = Json::MakeObject({{"StartRequests", std::move(request)}}).Dump();
    RT_ASSIGN_OR_RETURN(HttpAnswer answer,
                        metadata_.Send("POST", kEvents, {{"Metadata", "true"}}, body));
    if (answer.status == 200) acknowledged_.insert(id);
  }
  return absl::OkStatus();
}

}  // namespace rt::worker
