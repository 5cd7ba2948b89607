// A trial's rows come in answers of bounded size, and none is lost between two of them.
#include <memory>

#include "head/service/trial_rows.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

struct Reader : Harness {
  Io io = [](std::function<void()> job) { job(); };
  NodeId node = Join();
  uint64_t reported = 0;

  Reader() {
    auto created = Post(input::CreateExperiment{.spec = R"({"experiment":"e","command":["x"]})",
                                                .request_key = "k", .results_root = "/r"});
    REQUIRE(Wait(created).status.ok());
    Settle(node);
    Run(1);
  }
  AttemptId Attempt(uint32_t number) const {
    return {Owner::Of(TrialId{{1}, 0}), number, 1};
  }
  void Run(uint32_t number) {
    auto replied = Sync(node, {}, 0,
                        {{Fence{Attempt(number), 0}, Observed::Phase::kRunning, 4242}});
    Wait(replied);
  }
  // Rows of the attempt, all in one call.
  void Report(uint32_t number, std::vector<Row> rows) {
    reported += rows.size();
    auto done =
        Post(input::Report{.node = node, .batches = {{Attempt(number), 0, std::move(rows)}}});
    const Answered answered = Wait(done);
    INFO(answered.status.ToString());
    REQUIRE(answered.status.ok());
    REQUIRE(!answered.answer.verdicts.at(0).stale);
  }
  absl::StatusOr<Json> Read(const RowsAsk& ask) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Json>>>();
    auto future = promise->get_future();
    ReadTrialRows(*loop, journal, io, ask,
                  [promise](absl::StatusOr<Json> json) { promise->set_value(std::move(json)); });
    return Wait(future);
  }
  // "number" of every row, over all answers; `answers` counts them.
  std::vector<int64_t> ReadAll(size_t& answers) {
    std::vector<int64_t> numbers;
    RowsAsk ask{.trial = {{1}, 0}, .after_iteration = -1, .after = ""};
    for (answers = 0;;) {
      const auto reply = Read(ask);
      REQUIRE(reply.ok());
      ++answers;
      CHECK(reply->Dump().size() < limits::kMessageBytesMax);
      for (const Json& row : reply->Find("rows")->array()) numbers.push_back(row.GetInt("number"));
      CHECK(reply->GetBool("more") == !reply->GetString("next").empty());
      if (!reply->GetBool("more")) return numbers;
      ask.after = reply->GetString("next");
    }
  }
};

// A row of `keys` metrics beside its number.
Row RowOf(uint64_t seq, double iteration, size_t keys) {
  std::string metrics = R"({"number":)" + std::to_string(seq);
  for (size_t i = 0; i < keys; ++i)
    metrics += R"(,"layer)" + std::to_string(i) + R"(/gradient_norm":0.1234567890123)";
  return {seq, iteration, 1.0, 7, metrics + "}"};
}
std::vector<int64_t> UpTo(uint64_t count) {
  std::vector<int64_t> numbers;
  for (uint64_t i = 1; i <= count; ++i) numbers.push_back(static_cast<int64_t>(i));
  return numbers;
}

}  // namespace

TEST_CASE("rows: those of many metrics come in several answers, and all of them come") {
  Reader reader;
  uint64_t seq = 0;
  for (int call = 0; call < 30; ++call) {
    std::vector<Row> rows;
    for (int i = 0; i < 5; ++i) {
      ++seq;
      rows.push_back(RowOf(seq, static_cast<double>(seq), 2'000));
    }
    reader.Report(1, std::move(rows));
  }
  size_t answers = 0;
  CHECK(reader.ReadAll(answers) == UpTo(150));
  CHECK(answers > 5);
}

TEST_CASE("rows: those of one iteration are not lost where an answer is cut") {
  Reader reader;
  std::vector<Row> rows;
  for (uint64_t seq = 1; seq <= 40; ++seq) rows.push_back(RowOf(seq, 1, 4'000));
  reader.Report(1, std::move(rows));
  size_t answers = 0;
  CHECK(reader.ReadAll(answers) == UpTo(40));
  CHECK(answers > 1);
}

TEST_CASE("rows: the largest row has an answer of its own") {
  Reader reader;
  Row large{1, 1, 1, 7, R"({"number":1,"text":")" + std::string(1'000'000, 'x') + "\"}"};
  Row next = large;
  next.seq = 2;
  next.iteration = 2;
  next.metrics[10] = '2';
  Row last = next;
  last.seq = 3;
  last.iteration = 3;
  last.metrics[10] = '3';
  reader.Report(1, {large, next});
  reader.Report(1, {last});
  size_t answers = 0;
  CHECK(reader.ReadAll(answers) == UpTo(3));
  CHECK(answers == 3);
}

TEST_CASE("rows: later iterations alone, as releases before the cursor ask") {
  Reader reader;
  reader.Report(1, {RowOf(1, 1, 1), RowOf(2, 2, 1), RowOf(3, 3, 1)});
  const auto reply = reader.Read({.trial = {{1}, 0}, .after_iteration = 1, .after = ""});
  REQUIRE(reply.ok());
  CHECK(reply->Find("rows")->array().size() == 2);
  CHECK(!reply->GetBool("more"));
  CHECK(reply->Find("next")->is_null());
}

TEST_CASE("rows: a cursor that no answer had, and a trial that is not there, are errors") {
  Reader reader;
  for (const std::string after : {"x", "1.1.0.5", "1.1.0.0.1", "1.1.0.5.", "-1.1.0.5.1",
                                  "4294967296.1.0.5.1", "1.1.0.5.1.1"}) {
    const auto reply = reader.Read({.trial = {{1}, 0}, .after_iteration = -1, .after = after});
    CHECK(absl::IsInvalidArgument(reply.status()));
  }
  CHECK(absl::IsNotFound(reader.Read({.trial = {{7}, 0}, .after_iteration = -1, .after = ""})
                             .status()));
}
