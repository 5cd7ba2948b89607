#include "common/run/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/time.h"

namespace rt {
namespace {

constexpr size_t kCount = std::size(kFailpoints);
constexpr int64_t kStopMax = 600'000;  // ms
constexpr char kActions[] = "kill, kill:MS, stop:MS, error";

enum class FailpointAction { kNone, kKill, kStop, kError };

struct Order {
  FailpointAction action = FailpointAction::kNone;
  Millis stop_for = 0;  // First.
  int64_t times = 1;  // It fires at this one.
};

// Written before `any_armed` is set, which comes before the threads; only `left` changes later.
struct Armed {
  Order order;
  std::atomic<int64_t> left = 0;
};
std::array<Armed, kCount> g_armed;

std::optional<int64_t> ParsePositive(std::string_view text, int64_t most) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 1 || number > most) return std::nullopt;
  return number;
}

absl::StatusOr<Order> ParseOrder(std::string_view text) {
  Order order;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    const auto times = ParsePositive(text.substr(at + 1), INT32_MAX);
    if (!times) return Invalid("'" + std::string(text) + "': @K is @1 or more");
    order.times = *times;
    text = text.substr(0, at);
  }
  const std::string_view word = text.substr(0, text.find(':'));
  if (word == "kill") {
    order.action = FailpointAction::kKill;
  } else if (word == "stop") {
    order.action = FailpointAction::kStop;
  } else if (text == "error") {
    order.action = FailpointAction::kError;
  } else {
    return Invalid("no action '" + std::string(text) + "'; there are: " + kActions);
  }
  if (text == "kill" || text == "error") return order;
  const size_t colon = word.size();
  const auto span = ParsePositive(text.substr(std::min(colon + 1, text.size())), kStopMax);
  if (!span) return Invalid("'" + std::string(text) + "': MS is 1 to 600000 ms");
  order.stop_for = *span;
  return order;
}

absl::StatusOr<size_t> FindFailpoint(std::string_view name) {
  std::vector<std::string> names;
  std::string all;
  for (size_t i = 0; i < kCount; ++i) {
    if (kFailpoints[i].name == name) return i;
    names.emplace_back(kFailpoints[i].name);
    all += (i == 0 ? "" : " ") + names.back();
  }
  const std::string guess = DidYouMean(name, names);
  return Invalid("no failpoint '" + std::string(name) + "'" + (guess.empty() ? "" : ": " + guess),
                 "there are: " + all);
}

bool BelongsTo(std::string_view daemon, std::string_view name) {
  return name.size() > daemon.size() && name.starts_with(daemon) && name[daemon.size()] == '.';
}

}  // namespace

namespace failpoints {

std::atomic<bool> any_armed = false;

absl::Status Reach(size_t index) {
  Armed& armed = g_armed[index];
  const Order& order = armed.order;
  if (order.action == FailpointAction::kNone || armed.left.fetch_sub(1) != 1)
    return absl::OkStatus();
  const std::string name(kFailpoints[index].name);
  RT_LOG(kWarning) << "failpoint " << name << " fires";
  if (order.stop_for > 0) std::this_thread::sleep_for(std::chrono::milliseconds(order.stop_for));
  if (order.action == FailpointAction::kKill) {
    ::kill(::getpid(), SIGKILL);
    while (true) ::pause();  // The signal may find another thread first.
  }
  if (order.action == FailpointAction::kError) return ErrnoStatus(EIO, "failpoint " + name);
  return absl::OkStatus();
}

}  // namespace failpoints

absl::Status ArmFailpoints(std::string_view text, std::string_view daemon) {
  std::array<Order, kCount> orders;
  std::string armed;
  for (const std::string& one : text.empty() ? std::vector<std::string>() : Split(text, ',')) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos)
      return Invalid("'" + one + "' is not NAME=ACTION", "say NAME=kill, for one");
    const std::string name = one.substr(0, equals);
    RT_ASSIGN_OR_RETURN(const size_t index, FindFailpoint(name));
    auto order = ParseOrder(std::string_view(one).substr(equals + 1));
    if (!order.ok()) return Annotate(order.status(), name);
    if (order->action == FailpointAction::kError && !kFailpoints[index].can_fail)
      return Invalid(name + " is a moment, which cannot fail: kill and stop:MS can be done there");
    if (orders[index].action != FailpointAction::kNone) return Invalid(name + " is there twice");
    if (!BelongsTo(daemon, name)) continue;
    orders[index] = *order;
    armed += (armed.empty() ? "" : ", ") + one;
  }
  failpoints::any_armed = false;
  for (size_t i = 0; i < kCount; ++i) {
    g_armed[i].order = orders[i];
    g_armed[i].left = orders[i].times;
  }
  if (armed.empty()) return absl::OkStatus();
  RT_LOG(kWarning) << "failpoints are armed: " << armed;
  failpoints::any_armed = true;
  return absl::OkStatus();
}

absl::Status ArmFailpointsFromEnvironment(std::string_view daemon) {
  const char* text = std::getenv("RT_FAILPOINTS");
  return Annotate(ArmFailpoints(text == nullptr ? "" : text, daemon), "RT_FAILPOINTS");
}

std::string ListFailpoints(std::string_view daemon) {
  std::string list;
  for (const FailpointInfo& one : kFailpoints) {
    if (!BelongsTo(daemon, one.name)) continue;
    list += std::string(one.name) + " kill stop" + (one.can_fail ? " error\n" : "\n");
  }
  return list;
}

}  // namespace rt
