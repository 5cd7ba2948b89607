// autoscaling.hooks: what is told, and what becomes of a command that fails.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "common/run/files.h"
#include "head/scaling_config.h"
#include "head/service/scaling_hooks.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

ScalingView::Item HookItem(bool live, bool ready = false, bool notice = false) {
  return {.pool = "cpu",
          .is_live = live,
          .is_ready = ready,
          .has_notice = notice,
          .node = Json::MakeObject({{"name", "worker"}})};
}
ScalingView HookView(std::map<uint64_t, ScalingView::Item> machines) {
  return {.cluster = "lab", .machines = std::move(machines), .demand = Json::MakeArray()};
}
std::vector<std::string> Events(const ScalingView& before, const ScalingView& after) {
  std::vector<std::string> events;
  for (const HookCall& call : CallsBetween(before, after))
    events.push_back(call.event + " " + std::to_string(call.message.GetInt("count")));
  return events;
}
using Texts = std::vector<std::string>;

bool Comes(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return condition();
}

TEST_CASE("hooks: each change is told once") {
  const ScalingView none = HookView({}),
                    asked = HookView({{1, HookItem(true)}, {2, HookItem(true)}});
  const ScalingView ready = HookView({{1, HookItem(true, true)}, {2, HookItem(true)}});
  CHECK(Events(none, none).empty());
  CHECK(Events(none, asked) == Texts{"scale_up 2"});
  CHECK(Events(asked, asked).empty());
  CHECK(Events(asked, ready) == Texts{"node_ready 1"});
  CHECK(Events(ready, HookView({{1, HookItem(true, true, true)}, {2, HookItem(true)}})) ==
        Texts{"preempted 1"});
  CHECK(Events(ready, HookView({{1, HookItem(false)}, {2, HookItem(true)}})) ==
        Texts{"scale_down 1"});
  CHECK(
      Events(HookView({{1, HookItem(false)}}), none).empty());  // It was told when it was released.
  CHECK(Events(ready, none) == Texts{"scale_down 2"});          // They vanished.
  CHECK(Events(none, ready) == Texts{"scale_up 2", "node_ready 1"});
}

TEST_CASE("hooks: what the core did since the head started is told, also before the first look") {
  Core core;
  State& state = core.world.state;
  state.started_at = 1'000;
  state.machines[1] = {.number = 1, .pool = "cpu", .requested_at = 500};
  state.machines[2] = {.number = 2, .pool = "cpu", .requested_at = 600, .released_at = 900};
  state.machines[3] = {.number = 3, .pool = "cpu", .requested_at = 700, .released_at = 1'100};
  state.machines[4] = {.number = 4, .pool = "cpu", .requested_at = 1'100};
  CHECK(Events(ScalingViewAtStart(core), ScalingViewOf(core)) ==
        Texts{"scale_up 1", "scale_down 1"});
}

TEST_CASE("hooks: a command reads one object, and a failure is kept until one succeeds") {
  TempDir dir("hooks");
  const std::string out = dir.path() + "/out", program = dir.path() + "/hook.sh";
  REQUIRE(WriteFileAtomic(program,
                          "#!/bin/sh\necho \"$RT_HOOK $RT_CLUSTER $1\" >> " + out + "\ncat >> " +
                              out + "\ntest $RT_HOOK != scale_up || { echo no; exit 3; }\n",
                          {.mode = 0700})
              .ok());
  ScalingNews news(
      {.commands = {{"scale_up", {program, "$(touch /tmp/x); y"}}, {"scale_down", {program, "z"}}},
       .timeout = 20'000});
  news.See(HookView({}));
  news.See(HookView({{1, HookItem(true)}}));
  REQUIRE(Comes([&] { return !news.problem().empty(); }));
  CHECK(news.problem() == "hook scale_up: exit code 3: no");
  const std::string said = *ReadFile(out);
  CHECK(said.starts_with("scale_up lab $(touch /tmp/x); y\n{\"schema\":1,\"event\":\"scale_up\","));
  news.See(HookView({}));
  CHECK(Comes([&] { return news.problem().empty(); }));
  CHECK(ReadFile(out)->find("scale_down lab z") != std::string::npos);
}

TEST_CASE("hooks: a command that hangs is ended, and one that is missing is named") {
  ScalingNews news(
      {.commands = {{"scale_up", {"/bin/sleep", "600"}}, {"scale_down", {"/nowhere/notify"}}},
       .timeout = 200});
  news.See(HookView({}));
  news.See(HookView({{1, HookItem(true)}}));
  REQUIRE(Comes([&] { return !news.problem().empty(); }));
  CHECK(news.problem() == "hook scale_up: /bin/sleep did not end within 200 ms");
  news.See(HookView({}));
  REQUIRE(Comes([&] { return news.problem().find("/nowhere/notify") != std::string::npos; }));
}

TEST_CASE("scaling config: pools and hooks are read, and mistakes are named") {
  auto read = [](const std::string& text) {
    ScalingConfig config;
    const absl::Status status = ReadScaling(*Json::Parse(text), config);
    return status.ok() ? absl::StatusOr<ScalingConfig>(config) : status;
  };
  const auto config =
      read(R"({"pools":[{"name":"w","resources":"cpu=2","max_workers":3,"idle_timeout_s":1.5}],)"
           R"("autoscaling":{"hooks":{"scale_up":["/bin/true","a b"]},"hook_timeout_s":2}})");
  REQUIRE(config.ok());
  REQUIRE(config->pools.size() == 1);
  CHECK(config->pools[0].each.cpu == 2 * kUnit);
  CHECK(config->pools[0].max_workers == 3);
  CHECK(config->pools[0].idle_timeout == 1'500);
  CHECK(config->hooks.timeout == 2'000);
  CHECK(config->hooks.commands.at("scale_up") == Texts{"/bin/true", "a b"});
  CHECK(read("{}")->pools.empty());
  for (const char* wrong :
       {R"({"pools":[{"name":""}]})", R"({"pools":[{"name":"a"},{"name":"a"}]})",
        R"({"pools":[{"name":"a","min_workers":2,"max_workers":1}]})",
        R"({"pools":[{"name":"a","idle":1}]})", R"({"pools":{}})",
        R"({"autoscaling":{"hooks":{"scale_up":"/bin/true"}}})",
        R"({"autoscaling":{"hooks":{"scale_sideways":["x"]}}})",
        R"({"autoscaling":{"hook_timeout_s":0}})"})
    CHECK(absl::IsInvalidArgument(read(wrong).status()));
}

}  // namespace
}  // namespace rt
