// Tables of trials, reasons for waiting, and what a person is told of a head that is away.
#include <catch2/catch.hpp>

#include "cli/render/nouns.h"
#include "cli/render/table.h"
#include "cli/render/trials.h"
#include "cli/render/unreachable.h"
#include "cli/render/waits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "tests/unit/cli_text.h"

using namespace rt;

namespace {

std::vector<Json> Trials() {
  return Parsed(R"([
      {"id":"3/0","experiment_id":3,"number":0,"state":"COMPLETED","step":4,"runtime_s":61,
       "params":{"lr":0.5,"net":"wide","fixed":7},"metrics":{"loss":0.25,"acc":1},"reason":null},
      {"id":"3/1","experiment_id":3,"number":1,"state":"FAILED","step":null,"runtime_s":2,
       "params":{"lr":0.1,"net":"deep","fixed":7},"metrics":null,"reason":"bad"},
      {"id":"3/10","experiment_id":3,"number":10,"state":"RUNNING","step":2,"runtime_s":9,
       "params":{"lr":0.02,"net":"deep","fixed":7},"metrics":{"loss":0.125,"acc":0},
       "reason":null}])")
      .array();
}

std::vector<std::string> Sorted(const std::string& key) {
  std::vector<Json> trials = Trials();
  REQUIRE(SortTrials(key, trials).ok());
  std::vector<std::string> ids;
  for (const Json& trial : trials) ids.push_back(trial.GetString("id"));
  return ids;
}

}  // namespace

TEST_CASE("trials: a column for each parameter that differs and one for the metric") {
  const std::vector<std::string> lines = Split(RenderTrials(Trials(), "loss", false), '\n');
  CHECK(lines[0] == "ID    STATE      STEP  lr    net   loss   RUNTIME  REASON");
  CHECK(lines[1] == "3/0   COMPLETED  4     0.5   wide  0.25   1m 01s   -");
  CHECK(lines[2] == "3/1   FAILED     -     0.1   deep  -      2s       bad");
  CHECK(lines[4] == "without a column: fixed (rt trial show has them)");
  CHECK(Has(RenderTrials({Trials()[0]}, "", false), "fixed"));  // Nothing differs: all are shown.
  CHECK(Has(RenderTrials({Trials()[0]}, "", false), "METRICS"));
  for (const std::string& line : lines) CHECK(line.size() <= 100);
}

TEST_CASE("trials: --sort takes fields, parameters and metrics; what has no value comes last") {
  CHECK(Sorted("loss") == std::vector<std::string>{"3/10", "3/0", "3/1"});
  CHECK(Sorted("-loss") == std::vector<std::string>{"3/0", "3/10", "3/1"});
  CHECK(Sorted("lr") == std::vector<std::string>{"3/10", "3/1", "3/0"});
  CHECK(Sorted("-id") == std::vector<std::string>{"3/10", "3/1", "3/0"});
  CHECK(Sorted("net") == std::vector<std::string>{"3/1", "3/10", "3/0"});
  CHECK(Sorted("runtime") == std::vector<std::string>{"3/1", "3/10", "3/0"});
  std::vector<Json> trials = Trials();
  const absl::Status refused = SortTrials("-los", trials);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(HintOf(refused) == "did you mean 'loss'?");
  CHECK(trials.size() == 3);
}

TEST_CASE("table: with colours the header is bold and a state has its ink, and the widths stay") {
  const std::string plain = RenderTrials(Trials(), "loss", false);
  const std::string inked = RenderTrials(Trials(), "loss", true);
  CHECK_FALSE(Has(plain, "\x1b"));
  CHECK(Has(inked, "\x1b[31mFAILED\x1b[0m     -"));
  CHECK(Has(inked, "\x1b[32mCOMPLETED\x1b[0m"));
  CHECK(Has(inked, "\x1b[1mSTATE\x1b[0m      "));
  Invocation invocation;
  invocation.color_out = true;
  CHECK(Has(RenderItems(Noun::kTrial, Trials(), invocation), "\x1b[31mFAILED"));
}

TEST_CASE("waits: equal reasons are one line that counts everything") {
  const Json status = Parsed(R"({"pending":[{"id":"3/1","reason":"x"}],"waiting":[
      {"id":"2/7","reason":"waits for 4 gpus","count":2,"needs":{"gpu":4},"since":null},
      {"id":"3/20","reason":"waits for 1 cpu","count":4980,"needs":null,"since":null},
      {"id":"job 2","reason":"waits for 1 cpu","count":1,"needs":null,"since":null}]})");
  const std::vector<WaitGroup> groups = GroupWaits(status, "");
  REQUIRE(groups.size() == 2);
  CHECK(WhoWaits(groups[0]) == "3/20 and 4980 more");
  CHECK(WhoWaits(groups[1]) == "2/7 and 1 more");
  CHECK(GroupWaits(status, "2/").size() == 1);
  const std::string text = RenderStatus(status, Invocation());
  CHECK(Has(text, "3/20 and 4980 more"));
  CHECK(Has(text, "\nwaiting\nWAITS "));
}

TEST_CASE("waits: a head that does not count them yet lists them one by one") {
  const Json status =
      Parsed(R"({"pending":[{"id":"3/1","reason":"x"},{"id":"3/2","reason":"x"}]})");
  const std::vector<WaitGroup> groups = GroupWaits(status, "3/");
  REQUIRE(groups.size() == 1);
  CHECK(WhoWaits(groups[0]) == "3/1 and 1 more");
}

TEST_CASE("status: what is over is shown as far as it is recent, or all of it") {
  Json experiments = Json::MakeArray();
  for (int i = 1; i <= 9; ++i)
    experiments.Append(Json::MakeObject(
        {{"id", i},
         {"name", "sweep-" + std::to_string(i)},
         {"state", i == 1 ? "RUNNING" : "FAILED"}}));
  Json status = Json::MakeObject({{"experiments", std::move(experiments)}});
  Invocation invocation;
  std::string text = RenderStatus(status, invocation);
  CHECK(Has(text, "\nexperiments\nID "));
  CHECK(Has(text, "sweep-1 "));
  CHECK_FALSE(Has(text, "sweep-4 "));
  CHECK(Has(text, "sweep-5 "));
  CHECK(Has(text, "and 3 more: rt status --all"));
  status.Set("experiments_left_out", 40);  // By the head.
  CHECK(Has(RenderStatus(status, invocation), "and 43 more: rt status --all"));
  status.Set("experiments_left_out", 0);
  invocation.all = true;
  text = RenderStatus(status, invocation);
  CHECK(Has(text, "sweep-4 "));
  CHECK_FALSE(Has(text, "rt status --all"));
}

TEST_CASE("a head that is away: who was asked, why, what to do, and no word of gRPC's") {
  const absl::Status status = Unreachable(
      {.cluster = "lab", .address = "10.0.0.1:7070", .local_directory = ""},
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:7070: Failed to "
      "connect to remote host: Connection refused");
  CHECK(absl::IsUnavailable(status));
  CHECK(MessageOf(status) ==
        "the head of 'lab' at 10.0.0.1:7070 cannot be reached: the connection was refused");
  CHECK(Has(HintOf(status), "rt doctor -c lab"));
  CHECK(Has(HintOf(Unreachable({"t", "", "/home/x/.rt/clusters/t"}, "Socket closed")),
            "/home/x/.rt/clusters/t/head/log"));
  CHECK(TransportReason("Deadline Exceeded") == "it does not answer");
  CHECK(TransportReason("it does not answer") == "it does not answer");
}
