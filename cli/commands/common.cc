#include "cli/commands/common.h"

#include <cstdio>
#include <thread>

#include "cli/client/selector.h"
#include "cli/follow.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

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
    // An error for every range, also for one that selects a single item today.
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

absl::Status CheckSelectsOne(const Invocation& invocation, const char* what, const char* example) {
  return SelectsMany(SelectorOf(invocation)) ? Invalid(what, example) : absl::OkStatus();
}

// The number of --attempt or --previous; 0: the newest attempt.
static absl::StatusOr<uint32_t> AttemptOf(const Invocation& invocation, const Json& item) {
  if (!invocation.previous) return invocation.attempt;
  if (invocation.attempt != 0) return Invalid("--attempt and --previous exclude each other");
  const Json* attempts = item.Find("attempts");
  const size_t count = attempts != nullptr && attempts->is_array() ? attempts->array().size() : 0;
  const Json* id = item.Find("id");
  if (count < 2)
    return NotFound((id != nullptr && id->is_int() ? "job " : "trial ") + CellText(id) +
                    " has no attempt before the newest one");
  return static_cast<uint32_t>(attempts->array()[count - 2].GetInt("number"));
}

ExitCode CopyLogs(HeadClient& client, const Invocation& invocation, const Owner& owner,
                  const Json& item) {
  RT_ASSIGN_OR_RETURN(const uint32_t attempt, AttemptOf(invocation, item));
  std::atomic<bool> finished = !invocation.follow;
  FollowOptions options{.owner = owner,
                        .attempt = attempt,
                        .rank = invocation.rank,
                        .stream = "stdout",
                        .follow = invocation.follow,
                        .tail_lines = invocation.tail,
                        .fd = 1};
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

absl::StatusOr<std::optional<FrontTrials>> FrontOf(HeadClient& client, const Json& experiment) {
  std::optional<FrontTrials> front = FrontTrials::Of(experiment);
  if (!front.has_value()) return front;
  uint64_t id = static_cast<uint64_t>(experiment.GetInt("id"));
  RT_RETURN_IF_ERROR(EachTrialPage(client, id, [&](Json::Array& items) {
    for (const Json& trial : items) front->Add(trial);
    return absl::OkStatus();
  }));
  return front;
}

}  // namespace rt
