#include "tests/scenario/executor_commands.h"

#include "head/view/view.h"
#include "tests/scenario/words.h"

namespace rt::scenario {
namespace {

constexpr const char* kDriversUser = "ann";

// "opener=j1.a1", if it comes next.
AttemptId NextOpener(std::istream& words) {
  const std::streampos before = (words >> std::ws).tellg();
  std::string word;
  words >> word;
  if (word.starts_with("opener=")) {
    const std::optional<Fence> fence = ParseFence(word.substr(7) + ".r0");
    return fence.value_or(Fence{}).attempt;
  }
  words.clear();
  words.seekg(before);
  return {};
}

}  // namespace

std::optional<Input> DriversRequest(const std::string& verb, std::istream& words) {
  if (verb == "executors") {
    input::RequestExecutors request{.owner = kDriversUser, .session = Next<std::string>(words)};
    request.request_key = Next<std::string>(words);
    request.count = Next<int64_t>(words);
    request.opener = NextOpener(words);
    request.spec = Rest(words);
    return request;
  }
  if (verb == "listens" || verb == "release") {
    const std::string session = Next<std::string>(words);
    const Owner opener = NextOpener(words).owner;
    if (verb == "listens") return input::RenewSession{kDriversUser, session, opener};
    input::ReleaseExecutors release{.owner = kDriversUser, .session = session, .opener = opener};
    for (uint64_t id = 0; words >> id;) release.executors.push_back({id});
    release.all = release.executors.empty();
    release.reason = "enough";
    return release;
  }
  if (verb != "end") return std::nullopt;
  input::StopExecutor stop{.owner = kDriversUser, .reason = "by hand"};
  if (Next<std::string>(words) == "actor") stop.actor = Next<std::string>(words);
  else stop.executor = {Next<uint64_t>(words)};
  return stop;
}

std::vector<std::string> ShowSession(const Core& core, Millis now, std::istream& words) {
  const std::string session = Next<std::string>(words);
  const SessionKey key{NextOpener(words).owner, kDriversUser, session};
  std::vector<std::string> lines;
  const Json executors = SessionView(core, {.now = now}, key, 0);
  for (const Json& one : executors.array()) {
    std::string line =
        "executor " + std::to_string(one.GetInt("id")) + ": " + one.GetString("state");
    if (const std::string outcome = one.GetString("outcome"); !outcome.empty())
      line += " " + outcome;
    if (const std::string reason = one.GetString("reason"); !reason.empty()) line += ": " + reason;
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace rt::scenario
