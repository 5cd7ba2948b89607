// `rt exp list`, `rt trial list`, `rt job list`, `rt node list`: which items, in which order, and
// where the next page of them begins.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "cli/commands/common.h"
#include "cli/render/trials.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr int64_t kWholePage = 1'000;  // More than the head gives at once anyway.

const std::vector<std::string> kExperimentStates = {"PENDING",   "RUNNING", "PAUSED", "STOPPING",
                                                    "COMPLETED", "STOPPED", "FAILED"};
const std::vector<std::string> kTrialStates = {"PENDING",  "STARTING",  "RUNNING", "PAUSED",
                                               "STOPPING", "COMPLETED", "STOPPED", "FAILED"};
const std::vector<std::string> kJobStates = {"PENDING",   "STARTING", "RUNNING", "STOPPING",
                                             "SUCCEEDED", "FAILED",   "STOPPED"};
const std::vector<std::string> kExecutorStates = {"PENDING", "STARTING", "RUNNING", "STOPPING",
                                                  "ENDED"};
const std::vector<std::string> kNodeStates = {"REQUESTED", "STARTING", "READY", "SUSPECT",
                                              "DRAINING",  "LOST",     "GONE"};

// The states of --state; empty: all.
absl::StatusOr<std::set<std::string>> WantedStates(const Invocation& invocation,
                                                   const std::vector<std::string>& known) {
  std::set<std::string> wanted;
  if (invocation.state_filter.empty()) return wanted;
  for (std::string state : Split(invocation.state_filter, ',')) {
    std::transform(state.begin(), state.end(), state.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (std::find(known.begin(), known.end(), state) == known.end()) {
      const std::string near = DidYouMean(state, known);
      return Invalid("--state: '" + state + "' is not a state",
                     near.empty() ? "one of " + Join(known, ", ") : near);
    }
    wanted.insert(state);
  }
  return wanted;
}

// Takes one page of a list, and one more item, which tells that there is a next page.
class Page {
 public:
  Page(std::set<std::string> states, int64_t limit)
      : states_(std::move(states)), limit_(static_cast<size_t>(limit)) {}

  void Take(Json item) {
    if (!states_.empty() && !states_.contains(item.GetString("state"))) return;
    if (!IsFull()) items_.push_back(std::move(item));
  }
  bool IsFull() const { return limit_ > 0 && items_.size() > limit_; }

  // `next` is the id of the last item where more follow: --after takes it.
  Json Finish() {
    Json next;
    if (IsFull()) {
      items_.resize(limit_);
      const Json* id = items_.back().Find("id");  // Null: it is on its way, as those after it.
      if (!id->is_null()) next = Json(CellText(id));
    }
    return Json::MakeObject({{"schema", 1}, {"items", Json(std::move(items_))}, {"next", next}});
  }
  std::vector<Json>& items() { return items_; }

 private:
  std::set<std::string> states_;
  size_t limit_;
  std::vector<Json> items_;
};

ExitCode ListNumbered(const Invocation& invocation, Noun noun, const char* example,
                      const std::vector<std::string>& states,
                      absl::Status (*each)(HeadClient&, const PageStart&, const TakePage&)) {
  RT_ASSIGN_OR_RETURN(std::set<std::string> wanted, WantedStates(invocation, states));
  const std::string& after = invocation.after;
  if (after.size() > 18 || after.find_first_not_of("0123456789") != std::string::npos)
    return Invalid("--after: '" + after + "' is not an id", example);
  PageStart start{.from = after.empty() ? 0 : std::stoull(after) + 1};
  // One item more shows whether others follow. With --state the head cannot know how many match.
  if (wanted.empty() && invocation.limit > 0 && invocation.limit < kWholePage)
    start.limit = static_cast<uint32_t>(invocation.limit) + 1;
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  Page page(std::move(wanted), invocation.limit);
  RT_RETURN_IF_ERROR(each(*client, start, [&](Json::Array& items) {
    for (Json& item : items) page.Take(std::move(item));
    return !page.IsFull();
  }));
  return PrintList(invocation, noun, page.Finish());
}

// The trial after which the list begins; a bare number is one of `experiment`.
absl::StatusOr<std::optional<TrialId>> AfterTrial(const Invocation& invocation,
                                                  uint64_t experiment) {
  if (invocation.after.empty()) return std::nullopt;
  const bool bare = invocation.after.find('/') == std::string::npos && experiment != 0;
  std::optional<TrialId> after = ParseTrialId(
      bare ? std::to_string(experiment) + "/" + invocation.after : invocation.after);
  if (!after.has_value())
    return Invalid("--after: '" + invocation.after + "' is not the id of a trial",
                   "rt trial list --after 3/7");
  return after;
}

// 0: no limit.
absl::StatusOr<uint64_t> ExperimentOf(HeadClient& client, const Invocation& invocation) {
  const std::string selector =
      invocation.experiment.empty() ? FirstWord(invocation) : invocation.experiment;
  if (selector == "all") return 0;
  absl::StatusOr<std::vector<uint64_t>> chosen = ChooseExperiments(client, selector);
  if (selector.empty() && absl::IsNotFound(chosen.status())) return 0;  // There is none at all.
  if (!chosen.ok()) return chosen.status();
  if (chosen->size() != 1) return Invalid("--exp takes one experiment, or all");
  return chosen->front();
}

absl::Status TakeTrials(HeadClient& client, uint64_t experiment, std::optional<TrialId> after,
                        Page& page) {
  v1::ListTrialsRequest request;
  request.set_experiment(experiment);
  if (after.has_value()) *request.mutable_from() = RefOf({after->experiment, after->number + 1});
  while (!page.IsFull()) {
    RT_ASSIGN_OR_RETURN(Json reply, client.Ask<v1::ExperimentService>(
                                        &v1::ExperimentService::Stub::ListTrials, request));
    for (Json& item : reply["items"].array()) page.Take(std::move(item));
    const std::optional<TrialId> next = ParseTrialId(reply.GetString("next"));
    if (!next.has_value()) break;
    *request.mutable_from() = RefOf(*next);
  }
  return absl::OkStatus();
}

}  // namespace

ExitCode RunExperimentList(const Invocation& invocation) {
  return ListNumbered(invocation, Noun::kExperiment, "rt exp list --after 3", kExperimentStates,
                      EachExperimentPage);
}

ExitCode RunJobList(const Invocation& invocation) {
  return ListNumbered(invocation, Noun::kJob, "rt job list --after 3", kJobStates, EachJobPage);
}

// Those that have ended are history, of which the head keeps a part.
ExitCode RunExecutorList(const Invocation& invocation) {
  Invocation open = invocation;
  if (invocation.output != Output::kJson && invocation.state_filter.empty())
    open.state_filter = "PENDING,STARTING,RUNNING,STOPPING";
  return ListNumbered(open, Noun::kExecutor, "rt executor list --after 3", kExecutorStates,
                      EachExecutorPage);
}

// Nodes that left the cluster are history: unless they are asked for, only the JSON lists them.
ExitCode RunNodeList(const Invocation& invocation) {
  Invocation present = invocation;
  if (invocation.output != Output::kJson && invocation.state_filter.empty())
    present.state_filter = "REQUESTED,STARTING,READY,SUSPECT,DRAINING,LOST";
  return ListNumbered(present, Noun::kNode, "rt node list --after 3", kNodeStates, EachNodePage);
}

ExitCode RunTrialList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(std::set<std::string> wanted, WantedStates(invocation, kTrialStates));
  const bool sorts = !invocation.sort.empty();
  if (sorts && !invocation.after.empty())
    return Invalid("--after follows the order of ids, not that of --sort", "leave one of them out");
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(uint64_t experiment, ExperimentOf(*client, invocation));
  RT_ASSIGN_OR_RETURN(std::optional<TrialId> after, AfterTrial(invocation, experiment));
  Page page(std::move(wanted), sorts ? 0 : invocation.limit);
  RT_RETURN_IF_ERROR(TakeTrials(*client, experiment, after, page));
  if (sorts) {
    RT_RETURN_IF_ERROR(SortTrials(invocation.sort, page.items()));
    const size_t most = static_cast<size_t>(invocation.limit);
    if (most > 0 && page.items().size() > most) page.items().resize(most);
  }
  Json list = page.Finish();
  if (invocation.output != Output::kTable || experiment == 0)
    return PrintList(invocation, Noun::kTrial, std::move(list));
  RT_ASSIGN_OR_RETURN(Json whole, GetExperiment(*client, experiment));
  std::fputs(RenderTrials(list["items"].array(), whole.GetString("metric"), invocation.color_out)
                 .c_str(), stdout);
  SayMore(list);
  return kExitOk;
}

}  // namespace rt
