// Going back to an experiment under its request key: nothing of it is validated again.
#include <memory>

#include "common/cas/mem_store.h"
#include "common/run/files.h"
#include "head/service/driver_ops.h"
#include "tests/temp_dir.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

std::string Spec(const std::string& name) {
  return *ReadFile(std::string(RT_RECORDED_SPECS) + "/0.1.0/" + name);
}

// A head on a journal of release 0.1.0: user ann has an experiment of each text of 0.1.0 that is
// refused today, under the text's name as its key.
struct Upgraded : LoopHarness {
  const std::vector<std::string> refused = {
      "refused/experiment-ranges.json", "refused/experiment-pattern.json",
      "refused/experiment-scheduler.json", "refused/experiment-space.json"};
  TempDir dir{"attach"};
  MemoryJournal journal;
  Settings settings{"c", {}, ResultRoots({.results_root = dir.path()})};
  std::unique_ptr<Waits> waits;
  std::unique_ptr<Operations> operations;

  Upgraded() {
    Batch batch;
    auto add = [&](Event event) {
      batch.records.push_back({batch.records.size() + 1, 1'000, std::move(event)});
    };
    add(event::HeadStarted{1, "c", "test", "0.1.0"});
    uint64_t id = 0;
    for (const std::string& name : refused)
      add(event::ExperimentCreated{.experiment = {++id}, .owner = "ann", .spec = Spec(name),
                                   .request_key = name, .seed = 7,
                                   .results_dir = "/r/" + std::to_string(id)});
    auto done = std::make_shared<std::promise<absl::Status>>();
    journal.Append(batch, [done](absl::Status status) { done->set_value(std::move(status)); });
    auto written = done->get_future();
    REQUIRE(Wait(written).ok());
    Start(journal);
    waits = std::make_unique<Waits>(*loop, settings);
    operations = std::make_unique<Operations>(
        *loop, journal, [](std::function<void()> work) { work(); }, settings, *waits, *waits);
  }
  ~Upgraded() {
    waits->Close();
    loop.reset();
  }
  absl::StatusOr<Json> Ask(const std::string& op, const std::string& owner,
                           const std::string& spec, const std::string& key) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Json>>>();
    auto future = promise->get_future();
    const Json call =
        Json::MakeObject({{"op", op}, {"spec", *Json::Parse(spec)}, {"key", key}});
    StartDriverOp({*operations, blobs, io}, {{}, owner}, call.Dump(),
                  [promise](absl::StatusOr<Json> json) { promise->set_value(std::move(json)); });
    return Wait(future);
  }

  MemStore blobs;
  const Io io = [](std::function<void()> work) { work(); };
};

}  // namespace

TEST_CASE("attach: a driver gets its experiment whose spec this release refuses") {
  Upgraded head;
  int64_t id = 0;
  for (const std::string& name : head.refused) {
    INFO(name);
    ++id;
    const std::string spec = Spec(name);
    CHECK(absl::IsInvalidArgument(head.Ask("experiment_create", "ann", spec, "new").status()));
    for (const char* op : {"experiment_create", "experiment_find"}) {
      const auto found = head.Ask(op, "ann", spec, name);
      INFO(op << ": " << found.status().ToString());
      REQUIRE(found.ok());
      CHECK(found->GetInt("experiment_id") == id);
      CHECK(found->GetString("results_dir") == "/r/" + std::to_string(id));
      CHECK(found->GetBool("attached"));
    }
    // Keys belong to their users.
    CHECK(absl::IsInvalidArgument(head.Ask("experiment_create", "bob", spec, name).status()));
  }
}

TEST_CASE("attach: what was never created is found by nobody, and created once") {
  Upgraded head;
  const std::string spec = R"({"experiment":"e","command":["x"]})";
  const auto none = head.Ask("experiment_find", "ann", spec, "k");
  REQUIRE(none.ok());
  for (const char* field : {"experiment_id", "results_dir", "attached"})
    CHECK(none->Find(field)->is_null());
  const auto created = head.Ask("experiment_create", "ann", spec, "k");
  REQUIRE(created.ok());
  CHECK(!created->GetBool("attached"));
  const auto again = head.Ask("experiment_create", "ann", spec, "k");
  REQUIRE(again.ok());
  CHECK(again->GetBool("attached"));
  CHECK(again->GetInt("experiment_id") == created->GetInt("experiment_id"));
  const std::string other = R"({"experiment":"e","command":["y"]})";
  for (const char* op : {"experiment_create", "experiment_find"})
    CHECK(absl::IsAlreadyExists(head.Ask(op, "ann", other, "k").status()));
}
