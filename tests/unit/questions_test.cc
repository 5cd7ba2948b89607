// What a driver's poll answers: every record that the driver reads, once, whatever wakes the poll.
#include <memory>

#include "common/base/status.h"
#include "common/cas/mem_store.h"
#include "head/service/driver_ops.h"
#include "head/service/operations.h"
#include "head/service/services.h"
#include "head/service/translate.h"
#include "rt/v1/experiment.pb.h"
#include "rt/v1/worker.pb.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

// A head without nodes, whose driver asks over Operations, as the services do.
struct Asked : Harness {
  Settings settings{"c", {}, ResultRoots({.results_root = "/r"})};
  std::unique_ptr<Waits> waits;
  std::unique_ptr<Operations> operations;
  uint64_t session = 0;
  std::vector<uint32_t> asked;

  Asked() {
    waits = std::make_unique<Waits>(*loop, settings);
    operations = std::make_unique<Operations>(
        *loop, journal, [](std::function<void()> work) { work(); }, settings, *waits, *waits);
    loop->OnDurable([this](uint64_t) { waits->Changed(); });
    Must(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"],"driver":{"judges":true}})",
        .request_key = "k", .results_root = "/r"});
    Attach("first");
  }
  ~Asked() {
    waits->Close();
    loop.reset();  // It tells `waits` what is durable.
    operations.reset();
    waits.reset();
  }
  void Must(Input input) {
    auto posted = Post(std::move(input));
    Answered answered = Wait(posted);
    INFO(answered.status.ToString());
    REQUIRE(answered.status.ok());
  }
  Json Value(const std::function<void(JsonDone)>& ask) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Json>>>();
    auto future = promise->get_future();
    ask([promise](absl::StatusOr<Json> json) { promise->set_value(std::move(json)); });
    absl::StatusOr<Json> json = Wait(future);
    INFO(json.status().ToString());
    REQUIRE(json.ok());
    return *json;
  }
  void Attach(const std::string& driver) {
    Json attached =
        Value([&](JsonDone done) { operations->AttachDriver({1}, driver, std::move(done)); });
    session = static_cast<uint64_t>(attached.GetInt("session"));
  }
  Json Poll(uint64_t after, Millis hold) {
    return Value([&](JsonDone done) {
      operations->ReadQuestions({1}, {session, after, asked}, hold, std::move(done));
    });
  }
  // Everything that there is to read; the record up to which it was read.
  uint64_t Drain(uint64_t after) {
    for (;;) {
      const auto through = static_cast<uint64_t>(Poll(after, 0).GetInt("through"));
      if (through == after) return through;
      after = through;
    }
  }
  std::vector<std::string> KindsOf(const Json& answer) {
    std::vector<std::string> kinds;
    for (const Json& entry : answer.Find("entries")->array())
      kinds.push_back(entry.GetString("kind"));
    return kinds;
  }
  uint64_t Answer(uint64_t from, uint64_t through) {
    Must(input::AnswerQuestions{
        .experiment = {1}, .session = session, .from = from, .through = through});
    return through;
  }
};

constexpr Millis kLong = 5'000;  // The hold of a poll that is to be woken.

}  // namespace

TEST_CASE("questions: a driver is woken by a trial that a person resumes") {
  Asked head;
  head.Must(input::PauseTrial{{{1}, 0}, PauseCause::kUser, "by hand"});
  const uint64_t read = head.Drain(0);
  head.Must(input::ResumeTrial{{{1}, 0}});
  const Json answer = head.Poll(read, kLong);
  CHECK(head.KindsOf(answer) == std::vector<std::string>{"resume"});
}

TEST_CASE("questions: an answer without entries does not advance what was read") {
  Asked head;
  const uint64_t read = head.Drain(0);
  head.Must(input::CreateToken{"t2", "worker", 1'000, ""});  // A record that no driver reads.
  const Json over = head.Poll(read, 0);
  CHECK(head.KindsOf(over).empty());
  CHECK(static_cast<uint64_t>(over.GetInt("through")) == read);
  head.Must(input::StopTrial{{{1}, 0}, "enough"});
  CHECK(!head.KindsOf(head.Poll(read, kLong)).empty());
}

TEST_CASE("questions: a driver that comes back reads every answer of the one before") {
  Asked head;
  const uint64_t read = head.Drain(0);
  head.Answer(0, read);
  const uint64_t own = head.Drain(read);
  CHECK(own == read);  // Its own answers are no news to a driver.
  head.Attach("second");
  std::vector<std::string> kinds;
  uint64_t after = read;  // As a driver whose first answer was cut short of the answer's record.
  for (uint64_t last = 0; last != after;) {
    last = after;
    const Json answer = head.Poll(after, 0);
    for (const std::string& kind : head.KindsOf(answer)) kinds.push_back(kind);
    after = static_cast<uint64_t>(answer.GetInt("through"));
  }
  CHECK(kinds == std::vector<std::string>{"answered"});
}

TEST_CASE("questions: resources that are none are refused with the number of their trial") {
  Asked head;
  const uint64_t read = head.Drain(0);
  auto posted = head.Post(input::AnswerQuestions{.experiment = {1},
                                                 .session = head.session,
                                                 .through = read,
                                                 .allocated = {{0, R"({"memory":-1})"}}});
  CHECK(MessageOf(Wait(posted).status) ==
        "trial 0: resources/memory: must be a size such as 8GiB, or a number of bytes");
  head.Answer(0, read);  // What else there is to answer is still open.
}

TEST_CASE("waits: readers of logs do not use up the places of people and drivers") {
  Asked head;
  auto check = [](const Core&, const HeadFacts&, bool) -> std::optional<absl::StatusOr<Json>> {
    return std::nullopt;
  };
  auto ignore = [](const absl::StatusOr<Json>&) {};
  for (size_t i = 0; i < kParkedPerRole; ++i)
    head.waits->Add(WaitRole::kLog, check, 30'000, ignore);
  absl::Status refused;
  head.waits->Add(WaitRole::kLog, check, 30'000,
                  [&](const absl::StatusOr<Json>& answer) { refused = answer.status(); });
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(MessageOf(refused) ==
        "4096 waits of readers of logs are parked, the most that this head keeps");
  head.Drain(0);  // As a driver.
  const Json seen = head.Value(
      [&](JsonDone done) { head.operations->WaitExperiment({1}, {.hold = 0}, std::move(done)); });
  CHECK(seen.GetInt("id") == 1);
}

TEST_CASE("reasons: whoever gives a long one, it is cut between two characters") {
  const std::string kept(limits::kReasonBytesMax - 1, 'a');
  const std::string given = kept + "\u00e9";
  v1::StopRequest request;
  request.set_reason(given);
  CHECK(ReasonIn(request) == kept);
  v1::SyncRequest sync;
  sync.set_incarnation(1);
  sync.set_sync_seq(1);
  sync.set_drain_reason(given);
  const auto from_worker = SyncFromWire(sync, NodeId{1});
  INFO(from_worker.status().ToString());
  REQUIRE(from_worker.ok());
  CHECK(from_worker->drain_reason == kept);

  Asked asked;
  MemStore blobs;
  const Io io = [](std::function<void()> work) { work(); };
  const DriverTools tools{*asked.operations, blobs, io};
  const Json pause = Json::MakeObject(
      {{"op", "trial_pause"}, {"trial_id", "1/0"}, {"reason", given}});
  asked.Value([&](JsonDone done) {
    StartDriverOp(tools, {{}, "alice"}, pause.Dump(), std::move(done));
  });
  asked.Read([&](const Core& core) {
    CHECK(FindTrial(core.world.state, {{1}, 0})->pause_reason == kept);
  });
}
