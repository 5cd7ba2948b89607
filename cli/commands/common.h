// What several verbs need: lists and items on standard output, and the words of a command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/nouns.h"
#include "cli/commands/commands.h"
#include "cli/render/front.h"
#include "cli/render/nouns.h"
#include "common/base/ids.h"

namespace rt {

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

// The front of an experiment with several objectives. nullopt: it has one, or none.
absl::StatusOr<std::optional<FrontTrials>> FrontOf(HeadClient& client, const Json& experiment);

}  // namespace rt
