// How long a slot is empty: from a trial's end to the reply that brings the next trial, through the
// real loop and journal, in a search of 1000 ended trials over ten parameters. With random search;
// with TPE, which has one trial proposed ahead; and with TPE and max_concurrent, where the model
// thinks while the slot is empty.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>

#include "common/base/check.h"
#include "head/journal/sqlite_journal.h"
#include "head/loop/head_loop.h"
#include "tests/temp_dir.h"

namespace rt::bench {
namespace {

using std::chrono::steady_clock;
constexpr int kTrials = 1'000;
constexpr int kMeasured = 200;  // After them.

class Cluster {
 public:
  explicit Cluster(const std::string& search) {
    journal_ = *OpenSqliteJournal(folder_.File("journal.db"));
    loop_ = *HeadLoop::Start(*journal_, {"bench", "bench", RT_VERSION}, {});
    Post(input::CreateToken{"token", "worker", 60'000, ""});
    node_ = Post(input::UseToken{"token", ""}).node;
    std::string space;
    for (int i = 0; i < 10; ++i)
      space += (i > 0 ? ",\"x" : "\"x") + std::to_string(i) + R"(":{"uniform":[0,1]})";
    const int64_t samples = kTrials + kMeasured + 2;
    Post(input::CreateExperiment{
        .spec = R"({"experiment":"bench","command":["x"],"metric":"loss","mode":"min",)"
                R"("num_samples":)" +
                std::to_string(samples) + R"(,"space":{)" + space + "}," + search + "}",
        .results_root = folder_.File("results")});
  }
  ~Cluster() {
    loop_.reset();
    journal_.reset();
  }

  // Milliseconds from the end of each measured trial to the next one.
  // `is_ahead`: a trial lasts until the next one has been proposed.
  std::vector<double> Run(bool is_ahead) {
    std::vector<double> waits;
    while (running_.owner.kind == Owner::Kind::kNone) Sync(false);
    for (int i = 0; i < kTrials + kMeasured; ++i) {
      const double loss = static_cast<double>((i * 7'919) % 1'009) / 1'009;
      input::Report report{.node = node_};
      report.batches.push_back(
          {running_,
           0,
           {{1, 1, 0.1, 1'700'000'000'000, "{\"loss\":" + std::to_string(loss) + "}"}}});
      Post(std::move(report));
      if (is_ahead) WaitForNext();
      const AttemptId ended = running_;
      const auto start = steady_clock::now();
      Sync(true);
      while (running_ == ended || running_.owner.kind == Owner::Kind::kNone) Sync(false);
      const std::chrono::duration<double, std::milli> wait = steady_clock::now() - start;
      if (i >= kTrials) waits.push_back(wait.count());
    }
    std::sort(waits.begin(), waits.end());
    return waits;
  }

 private:
  Answer Post(Input input) {
    std::promise<Answer> answered;
    loop_->Post(std::move(input), [&](const absl::Status& status, const Answer& answer) {
      RT_CHECK_BECAUSE(status.ok(), status.ToString().c_str());
      answered.set_value(answer);
    });
    return answered.get_future().get();
  }
  void WaitForNext() {
    size_t made = 0;
    while (made <= running_.owner.number + 1) {
      std::promise<void> done;
      const auto count = [&](const Core& core) {
        made = core.world.state.experiments.at({1}).trials.size();
      };
      loop_->Query(count, [&](const absl::Status&) { done.set_value(); });
      done.get_future().get();
    }
  }
  void Sync(bool has_ended) {
    input::Sync sync{.node = node_, .incarnation = 1, .sync_seq = ++sync_seq_};
    sync.inventory.resources.cpu = kUnit;
    if (running_.owner.kind != Owner::Kind::kNone)
      sync.observed.push_back(
          {.fence = {running_, 0},
           .phase = has_ended ? Observed::Phase::kExited : Observed::Phase::kRunning,
           .pid = 1,
           .last_seq = has_ended ? 1u : 0u});
    sync.seen_epoch = seen_.epoch;
    std::promise<SyncReply> replied;
    loop_->PostSync(std::move(sync), {seen_.version},
                    [&](SyncReply reply) { replied.set_value(std::move(reply)); });
    seen_ = replied.get_future().get();
    RT_CHECK_BECAUSE(seen_.status.ok(), seen_.status.ToString().c_str());
    running_ = {};
    for (const DesiredAttempt& desired : seen_.desired)
      if (!desired.stop) running_ = desired.fence.attempt;
  }

  TempDir folder_{"next-trial"};
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<HeadLoop> loop_;
  NodeId node_;
  uint64_t sync_seq_ = 0;
  SyncReply seen_;
  AttemptId running_;
};

void Print(const char* name, const std::string& search, bool is_ahead) {
  const std::vector<double> waits = Cluster(search).Run(is_ahead);
  std::printf("BENCH next_trial_%s %.3f ms bar none peer none\n", name, waits[waits.size() / 2]);
  std::printf("# p99 %.3f ms, of %zu trials after %d\n", waits[waits.size() * 99 / 100],
              waits.size(), kTrials);
}

int Main() {
  Print("random", R"("search":"basic")", true);
  Print("tpe", R"("search":"tpe")", true);
  Print("random_one_at_a_time", R"("search":"basic","max_concurrent":1)", false);
  Print("tpe_one_at_a_time", R"("search":"tpe","max_concurrent":1)", false);
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main() { return rt::bench::Main(); }
