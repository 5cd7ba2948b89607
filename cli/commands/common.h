// What several verbs need: a client for the chosen cluster, lists and selections of nouns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/commands/commands.h"
#include "cli/head_client.h"
#include "cli/home.h"
#include "cli/invocation.h"
#include "cli/render/nouns.h"
#include "common/base/ids.h"

namespace rt {

// Of the cluster that the invocation chooses, connected.
absl::StatusOr<std::unique_ptr<HeadClient>> ClientFor(const Invocation& invocation);
absl::StatusOr<Json> ListExperiments(HeadClient& client);
absl::StatusOr<Json> ListJobs(HeadClient& client);
// The trials of an experiment (0: of all), a page at a time; an error of `take` ends it.
absl::Status EachTrialPage(HeadClient& client, uint64_t experiment,
                           const std::function<absl::Status(Json::Array& items)>& take);
// All of them at once, as a list.
absl::StatusOr<Json> ListTrials(HeadClient& client, uint64_t experiment);
absl::StatusOr<Json> GetExperiment(HeadClient& client, uint64_t id);
absl::StatusOr<Json> ListNodes(HeadClient& client);
absl::StatusOr<Json> GetNode(HeadClient& client, uint64_t id);
absl::StatusOr<Json> GetTrial(HeadClient& client, TrialId id);
v1::TrialRef RefOf(TrialId id);
absl::StatusOr<Json> GetJob(HeadClient& client, uint64_t id);

// The items that the selector (also a name) means; the newest when it is empty.
absl::StatusOr<std::vector<uint64_t>> ChooseExperiments(HeadClient& client, std::string selector);
absl::StatusOr<std::vector<uint64_t>> ChooseJobs(HeadClient& client, std::string selector);
absl::StatusOr<std::vector<TrialId>> ChooseTrials(HeadClient& client, const std::string& selector);
absl::StatusOr<std::vector<uint64_t>> ChooseNodes(HeadClient& client, std::string selector);
bool IsTerminal(std::string_view state);

// Prints a list with `items` and `next`: JSON as it is, ids only, or a table.
int PrintList(const Invocation& invocation, Noun noun, const Json& list);
void SayMore(const Json& list);  // On standard error, how to continue where `next` is not null.
int PrintItems(const Invocation& invocation, Noun noun, std::vector<Json> items);
void PrintJson(const Json& json);
std::string FirstWord(const Invocation& invocation);
std::string SelectorOf(const Invocation& invocation);  // Several words are one selector.
// An error if the selector can select several items: `what` is "logs are of one trial". Makes no
// call.
absl::Status CheckSelectsOne(const Invocation& invocation, const char* what, const char* example);
// `item`: the trial or job as `show` has it.
ExitCode CopyLogs(HeadClient& client, const Invocation& invocation, const Owner& owner,
                  const Json& item);

}  // namespace rt
