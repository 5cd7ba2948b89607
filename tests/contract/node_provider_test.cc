#include <signal.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "common/provider/local_provider.h"
#include "common/provider/provider_registry.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"
#include "tests/contract/node_provider_suite.h"
#include "tests/fakes/fake_cloud.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"

namespace rt::contract {
namespace {

using fakes::FakeCloud;

// Runs a rule of the suite against each implementation.
struct Cloud {
  Millis now = 1'000'000;
  FakeCloud cloud;
  explicit Cloud(Millis lag)
      : cloud(
            "c1", [this] { return now; }, lag) {
    cloud.LimitTo(4);
  }
  std::function<void()> settle() {
    return [this] { now += 10'000; };
  }
};

struct Local {
  TempDir temporary{"provider"};
  const std::string& directory = temporary.path();
  LocalProvider::Options options;
  std::unique_ptr<NodeProvider> provider;

  Local() {
    const std::string program = directory + "/worker.sh";
    const char* script = "#!/bin/sh\nexec sleep 600\n";
    REQUIRE(WriteFileAtomic(program, script, {.mode = 0700}).ok());
    options.context = {
        .cluster_id = "c1",
        .cluster_dir = directory,
        .worker_program = program,
        .head_address = "127.0.0.1:1",
        .make_token = [](uint64_t, const std::string&) { return std::string("token"); }};
    options.slots = {{"cpu", 4}};
    Restart();
  }
  ~Local() {
    provider->EndAll();
    provider.reset();
  }
  void Restart() {  // As a head that was killed: nothing is ended.
    provider.reset();
    provider = LocalProvider::Start(options);
  }
  ProcessIdentity Worker(const std::string& name) const {
    ProcessIdentity identity;
    absl::StatusOr<std::string> text = ReadFile(directory + "/" + name + "/pid.start");
    if (text.ok()) std::istringstream(*text) >> identity.pid >> identity.start_time;
    return identity.pid != 0 && IsAlive(identity) ? identity : ProcessIdentity{};
  }
  // Waits for a living worker that is not `before`.
  ProcessIdentity AwaitWorker(const std::string& name, const ProcessIdentity& before = {}) const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < until) {
      // One look for both questions: between two looks the old worker may end.
      const ProcessIdentity worker = Worker(name);
      if (worker.pid != 0 && !(worker == before)) return worker;
      std::this_thread::yield();
    }
    return {};
  }
};

void AwaitEnd(const ProcessIdentity& process) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (IsAlive(process) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  REQUIRE(!IsAlive(process));
}

const std::function<void()> kAtOnce = [] {};

}  // namespace

TEST_CASE("node provider: created machines are listed") {
  for (Millis lag : {0, 5'000}) {
    Cloud cloud(lag);
    CreatedMachinesAreListed(cloud.cloud, cloud.settle());
  }
  CreatedMachinesAreListed(*Local().provider, kAtOnce);
}
TEST_CASE("node provider: a repeated Create makes nothing") {
  Cloud cloud(5'000);
  ARepeatedCreateMakesNothing(cloud.cloud, cloud.settle());
  ARepeatedCreateMakesNothing(*Local().provider, kAtOnce);
}
TEST_CASE("node provider: Terminate removes machines, and may be repeated") {
  Cloud cloud(5'000);
  TerminateRemovesAndMayBeRepeated(cloud.cloud, cloud.settle());
  TerminateRemovesAndMayBeRepeated(*Local().provider, kAtOnce);
}
TEST_CASE("node provider: more than there is capacity for is cut off") {
  Cloud cloud(0);
  MoreThanThereIsCapacityForIsCutOff(cloud.cloud, cloud.settle());
  MoreThanThereIsCapacityForIsCutOff(*Local().provider, kAtOnce);
}
TEST_CASE("node provider: what does not carry the cluster's tag is not touched") {
  Cloud cloud(0);
  cloud.cloud.AddForeign("i-other");
  WhatIsNotOursIsNotTouched(cloud.cloud, "i-other", [&] { return cloud.cloud.IsThere("i-other"); });
  Local local;
  const std::string foreign = local.directory + "/worker-9";
  REQUIRE(EnsureDirectory(foreign).ok());
  REQUIRE(
      WriteFileAtomic(foreign + "/machine", R"({"cluster":"c2","number":9,"pool":"cpu"})").ok());
  WhatIsNotOursIsNotTouched(*local.provider, "worker-9",
                            [&] { return Exists(foreign + "/machine"); });
  CHECK(ProviderErrorOf(local.provider->Create(Wish({9})).status()) ==
        ProviderError::kBadConfiguration);
  for (const char* odd : {"..", ".", "../x", "/etc", ""})
    CHECK((local.provider->Terminate({odd}).ok() || Exists(local.directory)));
}
TEST_CASE("node provider: EndAll leaves nothing") {
  Cloud cloud(0);
  EndAllLeavesNothing(cloud.cloud, cloud.settle());
  EndAllLeavesNothing(*Local().provider, kAtOnce);
}

TEST_CASE("node provider: an error carries its class, and one without a class is unclear") {
  for (ProviderError error :
       {ProviderError::kCapacity, ProviderError::kQuota, ProviderError::kBadConfiguration,
        ProviderError::kNotOurs, ProviderError::kRetryLater})
    CHECK(ProviderErrorOf(MakeProviderError(error, "x", "hint")) == error);
  CHECK(ProviderErrorOf(absl::InternalError("boom")) == ProviderError::kRetryLater);
  CHECK(ProviderErrorOf(absl::OkStatus()) == ProviderError::kNone);
}

TEST_CASE("local provider: its machines outlive the head, and none is started twice") {
  Local local;
  REQUIRE(local.provider->Create(Wish({3})).ok());
  const ProcessIdentity worker = local.AwaitWorker("worker-3");
  REQUIRE(worker.pid != 0);
  local.Restart();
  CHECK(local.provider->List()->front().number == 3);
  REQUIRE(local.provider->Create(Wish({3, 4})).ok());
  REQUIRE(local.AwaitWorker("worker-4").pid != 0);
  CHECK(local.Worker("worker-3") == worker);
  kill(worker.pid, SIGKILL);  // It is started again.
  const ProcessIdentity second = local.AwaitWorker("worker-3", worker);
  CHECK(second.pid != 0);
  REQUIRE(local.provider->Terminate({"worker-3"}).ok());
  CHECK(!IsAlive(second));
  CHECK(!Exists(local.directory + "/worker-3"));
}

TEST_CASE("local provider: a machine that is being removed is not started again by the next head") {
  Local local;
  REQUIRE(local.provider->Create(Wish({3})).ok());
  const ProcessIdentity worker = local.AwaitWorker("worker-3");
  REQUIRE(worker.pid != 0);
  local.provider.reset();
  // The head died after it had noted the end, and before the worker ended.
  const std::string file = local.directory + "/worker-3/machine";
  Json machine = *Json::Parse(*ReadFile(file));
  machine.Set("ending", true);
  REQUIRE(WriteFileAtomic(file, machine.Dump()).ok());
  kill(worker.pid, SIGKILL);
  AwaitEnd(worker);  // Otherwise the next head could still see it.
  local.Restart();
  REQUIRE(local.provider->Create(Wish({4})).ok());
  REQUIRE(local.AwaitWorker("worker-4").pid != 0);  // A round of starts is over.
  CHECK(local.Worker("worker-3").pid == 0);
  CHECK(local.provider->List()->size() == 2);
  CHECK(local.provider->Terminate({"worker-3"}).ok());
  CHECK(local.provider->List()->size() == 1);
}

TEST_CASE("provider registry: a provider that the head does not know is named") {
  const auto unknown = ReadProvider(Json::MakeObject({{"type", "nimbus"}}));
  CHECK(unknown.status().message() == "this head knows the provider 'aws', 'local', not 'nimbus'");
  CHECK(ReadProvider(Json::MakeObject({{"type", "local"}})).ok());
}

}  // namespace rt::contract
