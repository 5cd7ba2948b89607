// A head starts on a journal whose specs today's parser refuses, from its records and from a
// snapshot, and goes on with what it can read.
#include <filesystem>

#include "common/run/files.h"
#include "common/spec/journalled_spec.h"
#include "head/journal/codec.h"
#include "head/journal/replay.h"
#include "head/view/view.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

std::string Spec(const std::string& name) {
  return *ReadFile(std::string(RT_RECORDED_SPECS) + "/0.1.0/" + name);
}

// As release 0.1.0 wrote it: an experiment for each of its refused texts, a job, and of a search
// with two ranks a trial that lives.
struct OldJournal {
  MemoryJournal journal;
  Batch batch;

  void Add(Event event) {
    batch.records.push_back({batch.records.size() + 1, 1'000, std::move(event)});
  }
  OldJournal() {
    Add(event::HeadStarted{1, "c", "test", "0.1.0"});
    Add(event::NodeJoined{.node = {1}, .name = "n1"});
    Add(event::NodeReady{.node = {1}, .inventory = {.resources = {.cpu = 8 * kUnit}}});
    Add(event::JobSubmitted{.job = {1}, .owner = "ann", .spec = Spec("refused/job-argv.json")});
    uint64_t id = 0;
    for (const char* name : {"refused/experiment-ranges.json", "refused/experiment-pattern.json",
                             "refused/experiment-scheduler.json", "refused/experiment-space.json",
                             "refused/experiment-nothing.json", "experiment-odd.json"}) {
      Add(event::ExperimentCreated{.experiment = {++id}, .owner = "ann", .spec = Spec(name),
                                   .seed = 7, .results_dir = "/r/" + std::to_string(id)});
    }
    Add(event::TrialCreated{.trial = {{1}, 0}, .params = "{}"});
    Add(event::TrialCreated{.trial = {{4}, 0}, .params = "{}",
                            .resources = Spec("refused/resources-odd.json")});
    Add(event::AttemptPlaced{.attempt = {Owner::Of(TrialId{{1}, 0}), 1, 1},
                             .members = {{.rank = 0, .node = {1}}, {.rank = 1, .node = {1}}}});
    auto done = std::make_shared<std::promise<absl::Status>>();
    journal.Append(batch, [done](absl::Status status) { done->set_value(std::move(status)); });
    auto future = done->get_future();
    REQUIRE(Wait(future).ok());
  }
};

}  // namespace

TEST_CASE("loop: a head starts on specs that are refused today, and says what it ignores") {
  OldJournal old;
  LoopHarness head;
  head.Start(old.journal);
  head.Read([](const Core& core) {
    const Index& index = core.world.index;
    CHECK(index.experiments.at({2}).spec.report_regex.empty());
    CHECK(index.experiments.at({1}).requests.empty());
    CHECK(index.experiments.at({1}).spec.resources.bundles.size() == 2);
    CHECK(index.experiments.at({4}).requests.at(0).bundles.size() == 2);
    CHECK(!index.jobs.at({1}).warnings.empty());
    auto shown = ExperimentView(core, {}, {2});
    REQUIRE(shown.ok());
    CHECK(shown->Find("warnings")->array().size() == 2);
    CHECK(shown->Find("spec")->GetString("report_regex") == "loss=(.*");  // As the user wrote it.
  });
  // It works on: a search whose space cannot be read makes no trial, another one does.
  auto ticked = head.Post(input::Tick{});
  REQUIRE(Wait(ticked).status.ok());
  head.Read([](const Core& core) {
    CHECK(core.world.state.experiments.at({4}).trials.size() == 1);
    CHECK(!core.world.state.experiments.at({3}).trials.empty());
  });
  head.loop.reset();
}

TEST_CASE("loop: a snapshot with specs that are refused today is loaded") {
  OldJournal old;
  auto replayed = Replay(old.journal);
  REQUIRE(replayed.ok());
  const State& state = replayed->world.state;
  REQUIRE(old.journal.WriteSnapshot({state.seq, EncodeState(state)}).ok());
  LoopHarness head;
  head.Start(old.journal);
  head.Read([&](const Core& core) {
    CHECK(core.world.index.experiments.at({1}).live.size() == 1);
    CHECK(core.world.index.experiments.at({3}).spec.scheduler.name == "fifo");
  });
  head.loop.reset();
}

TEST_CASE("loop: what is submitted today is journalled in its normalised form, with the text") {
  MemoryJournal journal;
  LoopHarness head;
  head.Start(journal);
  const std::string text = R"({"command":["x"],"experiment":"e","max_concurrent":null})";
  auto created = head.Post(input::CreateExperiment{.owner = "ann", .spec = text,
                                                   .results_root = "/r"});
  REQUIRE(Wait(created).status.ok());
  head.Read([&](const Core& core) {
    const Experiment& experiment = core.world.state.experiments.at({1});
    CHECK(experiment.spec_text == text);
    CHECK(experiment.spec_format == kSpecFormat);
    CHECK(Json::Parse(experiment.normal_spec)->Find("breaker")->GetInt("trials") == 5);
    CHECK(core.world.index.experiments.at({1}).warnings.empty());
  });
  head.loop.reset();
}
