// The head's experiments, trials, jobs and nodes as a client asks for them: all, one, or those that
// a selector means. Each is JSON as docs/json.md has it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"
#include "cli/client/home.h"
#include "cli/invocation.h"
#include "common/base/ids.h"

namespace rt {

// A connected client of the cluster that the invocation chooses.
absl::StatusOr<std::unique_ptr<HeadClient>> ClientFor(const Invocation& invocation);
// A list by ascending id, in pages of at most `limit` items (0: as many as the head gives at once)
// from the id `from` on, until `take` wants no more.
struct PageStart {
  uint64_t from = 0;
  uint32_t limit = 0;
};
using TakePage = std::function<bool(Json::Array& items)>;
absl::Status EachExperimentPage(HeadClient& client, const PageStart& start, const TakePage& take);
absl::Status EachJobPage(HeadClient& client, const PageStart& start, const TakePage& take);
absl::Status EachExecutorPage(HeadClient& client, const PageStart& start, const TakePage& take);
absl::Status EachNodePage(HeadClient& client, const PageStart& start, const TakePage& take);
// All of them.
absl::StatusOr<Json> ListExperiments(HeadClient& client);
absl::StatusOr<Json> ListJobs(HeadClient& client);
// The trials of an experiment (0: of all), a page at a time; an error of `take` ends it.
absl::Status EachTrialPage(HeadClient& client, uint64_t experiment,
                           const std::function<absl::Status(Json::Array& items)>& take);
// All of them at once, as a list.
absl::StatusOr<Json> ListTrials(HeadClient& client, uint64_t experiment);
absl::StatusOr<Json> GetExperiment(HeadClient& client, uint64_t id);
absl::StatusOr<Json> ListNodes(HeadClient& client);
absl::StatusOr<Json> GetNode(HeadClient& client, const std::string& name_or_id);
absl::StatusOr<Json> GetTrial(HeadClient& client, TrialId id);
v1::TrialRef RefOf(TrialId id);
absl::StatusOr<Json> GetJob(HeadClient& client, uint64_t id);
absl::StatusOr<Json> GetExecutor(HeadClient& client, uint64_t id);
// One operation of drivers (docs/protocol.md), which people may use as well.
absl::StatusOr<Json> AskOperation(HeadClient& client, const Json& operation);

// The items that the selector (also a name) means; the newest when it is empty.
absl::StatusOr<std::vector<uint64_t>> ChooseExperiments(HeadClient& client, std::string selector);
absl::StatusOr<std::vector<uint64_t>> ChooseJobs(HeadClient& client, std::string selector);
absl::StatusOr<std::vector<uint64_t>> ChooseExecutors(HeadClient& client, std::string selector);
absl::StatusOr<std::vector<TrialId>> ChooseTrials(HeadClient& client, const std::string& selector);
absl::StatusOr<std::vector<uint64_t>> ChooseNodes(HeadClient& client, std::string selector);
bool IsTerminal(std::string_view state);

}  // namespace rt
