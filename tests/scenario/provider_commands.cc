#include "tests/scenario/provider_commands.h"

#include <map>

#include "common/base/strings.h"
#include "head/core/pools.h"
#include "tests/scenario/words.h"

namespace rt::scenario {
namespace {

struct NumberedId {
  uint64_t machine = 0;
  std::string id;
};

// "7=i-7".
NumberedId ParseNumberedId(const std::string& word) {
  const std::vector<std::string> parts = Split(word, '=');
  return {std::stoull(parts.front()), parts.back()};
}

input::MachinesFailed ReadFailure(std::istream& words) {
  static const std::map<std::string, ProviderError> kErrors = {
      {"later", ProviderError::kRetryLater},
      {"capacity", ProviderError::kCapacity},
      {"quota", ProviderError::kQuota},
      {"configuration", ProviderError::kBadConfiguration}};
  input::MachinesFailed failed{.request = Next<uint64_t>(words)};
  failed.error = kErrors.at(Next<std::string>(words));
  failed.reason = Rest(words);
  return failed;
}

}  // namespace

PoolSpec ReadPool(std::istream& words) {
  PoolSpec pool{.name = Next<std::string>(words), .max_workers = 2};
  for (std::string word; words >> word;) {
    const std::vector<std::string> parts = Split(word, '=');
    const int64_t value = std::stoll(parts.back());
    if (parts[0] == "cpu") pool.each.cpu = value * kUnit;
    if (parts[0] == "gpu") pool.each.gpu = value * kUnit;
    if (parts[0] == "min") pool.min_workers = static_cast<uint32_t>(value);
    if (parts[0] == "max") pool.max_workers = static_cast<uint32_t>(value);
    if (parts[0] == "idle") pool.idle_timeout = value;
  }
  return pool;
}

std::optional<Input> ProviderAnswer(const std::string& verb, std::istream& words, Millis now) {
  if (verb == "failed") return ReadFailure(words);
  if (verb == "request") {
    const auto cpus = Next<int64_t>(words);
    const auto count = Next<uint64_t>(words);
    input::RequestResources request{.bundles = {{{.cpu = cpus * kUnit}, count}}, .by = "ann"};
    if (count == 0) request.bundles.clear();
    return request;
  }
  if (verb == "created") {
    input::MachinesCreated created{.request = Next<uint64_t>(words), .machines = {}};
    for (std::string word; words >> word;) {
      const NumberedId made = ParseNumberedId(word);
      created.machines.push_back({made.machine, made.id});
    }
    return created;
  }
  if (verb == "listed") {
    input::MachinesListed listed{.machines = {}, .complete_before = now - Next<Millis>(words)};
    for (std::string word; words >> word;) {
      const NumberedId made = ParseNumberedId(word);
      listed.machines.push_back({made.machine, made.id, "cpu"});
    }
    return listed;
  }
  if (verb != "terminated") return std::nullopt;
  input::MachinesTerminated terminated;
  for (uint64_t machine; words >> machine;) terminated.machines.push_back(machine);
  return terminated;
}

std::string PrintWishes(const Core& core, Millis now) {
  const ProviderWishes wishes = WishesOf(core, now);
  std::vector<std::string> texts;
  for (const CreateWish& wish : wishes.create) {
    std::string text = "Create(" + wish.pool;
    for (uint64_t machine : wish.machines) text += ", " + std::to_string(machine);
    texts.push_back(text + ")");
  }
  for (const TerminateWish& wish : wishes.terminate) texts.push_back("Terminate(" + wish.id + ")");
  if (wishes.needs_list) texts.emplace_back("List()");
  return "wishes: " + (texts.empty() ? "nothing" : Join(texts, " "));
}

}  // namespace rt::scenario
