// The test of an attempt's gpus before its programs start.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "common/run/files.h"
#include "worker/launch/preflight.h"

namespace rt::worker {
namespace {

const std::vector<std::string> kGpus = {"GPU-a", "GPU-b"};

ProbeRun Wrote(const std::string& report, int code = 0) {
  return {ProgramResult{.exit = {.code = code, .signal = 0}, .output = ""}, report};
}

PreflightResult Judged(const std::string& report, double min_bus_gbps = 0) {
  return JudgePreflight(kGpus, Wrote(report, 1), min_bus_gbps);
}

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A folder whose rt-probe is this script; "$2" is the path of the report.
struct FakeProbe {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("rt-preflight-" + std::to_string(::getpid()));
  explicit FakeProbe(const std::string& script) {
    std::filesystem::create_directories(folder);
    const std::string path = folder / "rt-probe";
    REQUIRE(WriteFileAtomic(path, "#!/bin/sh\n" + script + "\n").ok());
    REQUIRE(::chmod(path.c_str(), 0700) == 0);
  }
  ~FakeProbe() { std::filesystem::remove_all(folder); }
  std::string report() const { return folder / "report"; }
};

LaunchBody BodyOf(uint32_t rank, std::vector<std::string> gpus = kGpus) {
  LaunchBody body;
  body.fence = {{Owner::Of(TrialId{{1}, 0}), 1, 1}, rank};
  body.gpu_uuids = std::move(gpus);
  body.resources.gpu = kUnit;
  body.preflight = true;
  return body;
}

PreflightResult Asked(Preflights& preflights, const LaunchBody& body, const FakeProbe& probe) {
  PreflightResult told{.faults = {}, .error = "it was not told"};
  preflights.Ask(body, probe.report(), [&](const PreflightResult& result) { told = result; });
  return told;
}

constexpr char kWell[] =
    R"({"fault":null,"devices":[{"fault":null},{"fault":null}],"all_reduce":{"bus_gbps":300}})";

}  // namespace

TEST_CASE("preflight: the gpu that the probe names is to blame, by its place in the list") {
  CHECK(JudgePreflight(kGpus, Wrote(kWell), 200).is_well());
  const PreflightResult slow =
      Judged(R"({"devices":[{"fault":null},{"fault":"it multiplies at 300 TFLOP/s"}]})");
  CHECK(slow.faults == std::vector<PreflightFault>{{"GPU-b", "it multiplies at 300 TFLOP/s"}});
  CHECK(slow.error.empty());
  // CUDA leaves out what it cannot use.
  CHECK(Judged(R"({"devices":[{"fault":null}]})").faults.at(0).uuid == "GPU-b");
}

TEST_CASE("preflight: a wrong all-reduce is a fault of all gpus, and a slow one of none") {
  const PreflightResult slow = JudgePreflight(kGpus, Wrote(kWell), 400);
  CHECK(slow.faults.empty());
  CHECK(slow.error ==
        "all-reduce at 300 GB/s of bus bandwidth, 400 are asked for, between GPU-a, GPU-b: none of "
        "them is slower than the others");
  CHECK(Judged(R"({"devices":[{},{}],"all_reduce":{"bus_gbps":3,"errors":0,"fault":"slow"}})", 400)
            .faults.empty());
  // The probe has found which one it is.
  const PreflightResult named =
      Judged(R"({"devices":[{},{"fault":"its all-reduce with gpu 0 is at 3 GB/s"}],)"
             R"("all_reduce":{"bus_gbps":3,"errors":0,"fault":"slow"}})",
             400);
  CHECK(named.faults ==
        std::vector<PreflightFault>{{"GPU-b", "its all-reduce with gpu 0 is at 3 GB/s"}});
  const char* const wrong =
      R"({"devices":[{},{}],"all_reduce":{"bus_gbps":30,"errors":3,"fault":"3 sums are wrong"}})";
  CHECK(Judged(wrong).faults.size() == 2);
  CHECK(Judged(wrong, 400).faults.size() == 2);  // It is also slow.
  // It did not end.
  CHECK(Judged(R"({"devices":[{},{}],"all_reduce":{"fault":"the all-reduce did not end"}})", 400)
            .faults.size() == 2);
  // One gpu has no bandwidth to be measured.
  CHECK(JudgePreflight({"GPU-a"}, Wrote(R"({"devices":[{}],"all_reduce":null})"), 400).is_well());
}

TEST_CASE("preflight: a probe that hangs or crashes is a fault of all gpus that it was given") {
  const ProbeRun hung{absl::DeadlineExceededError("it ran for 10 s"), ""};
  CHECK(JudgePreflight(kGpus, hung, 0).faults.size() == 2);
  ProbeRun crashed = Wrote(kWell);
  crashed.end->exit = {.code = 0, .signal = 11};
  crashed.end->output = "segfault in the driver\n";
  const std::string what = JudgePreflight(kGpus, crashed, 0).faults.at(1).what;
  CHECK(Says(what, "signal 11"));
  CHECK(what.ends_with(" on GPU-a, GPU-b: segfault in the driver"));
}

TEST_CASE("preflight: what could not be tested is an error that says why, and blames no gpu") {
  for (const char* garbage : {"", "no JSON", "[]", "{}", R"({"devices":{}})", R"({"devices":3})"}) {
    const PreflightResult told = Judged(garbage);
    CHECK(told.faults.empty());
    CHECK(Says(told.error, "rt-probe wrote no report: exit code 1"));
  }
  ProbeRun prints = Wrote(R"({"fault":"no gpu is visible","devices":[]})", 1);
  prints.end->output = "driver/library version mismatch\n";
  CHECK(JudgePreflight(kGpus, prints, 0).error ==
        "rt-probe: no gpu is visible: driver/library version mismatch");
  CHECK(Judged(R"({"fault":"no gpu is visible","devices":[]})").error ==
        "rt-probe: no gpu is visible");
  const PreflightResult unmeasured =
      Judged(R"({"devices":[{},{}],"all_reduce":{"note":"NCCL was not found"}})", 100);
  CHECK(unmeasured.faults.empty());
  CHECK(Says(unmeasured.error, "did not measure the bandwidth between the gpus: NCCL was not"));
  // The elements of a report that a broken probe wrote are not looked into.
  CHECK(Judged(R"({"devices":[3,null],"all_reduce":[]})").is_well());
}

TEST_CASE("preflight: what the nodes of a gang find together blames no gpu of this one") {
  const auto across = [](const std::string& text, double least = 0) {
    return Judged(
        R"({"devices":[{},{}],"all_reduce":{"bus_gbps":300},"across_nodes":)" + text + "}", least);
  };
  const PreflightResult well = across(R"({"bus_gbps":40,"nodes":[0,0]})", 30);
  CHECK(well.is_well());
  CHECK(well.bus_gbps == 40);
  const PreflightResult fault =
      across(R"({"fault":"node 1 of the gang has a gpu at fault","nodes":[0,1]})");
  CHECK((fault.faults.empty() && fault.error.empty()));
  CHECK(fault.elsewhere == "node 1 of the gang has a gpu at fault");
  const PreflightResult absent =
      across(R"({"fault":"node 1 of the gang did not come","nodes":[0,3]})");
  CHECK((absent.faults.empty() && absent.elsewhere.empty()));
  CHECK(absent.error == "node 1 of the gang did not come");
  CHECK(Says(across(R"({"note":"node 1 of the gang has no NCCL","nodes":[0,4]})", 30).error,
             "between the nodes: node 1 of the gang has no NCCL"));
  CHECK(across(R"({"note":"node 1 of the gang has no NCCL","nodes":[0,4]})").is_well());
  CHECK(across(R"([3])").is_well());
  // A link that is to blame is the machine's failure; one that nobody complains of is none.
  const PreflightResult slow = across(
      R"({"fault":"too slow","slow_links":[{"node":1,"other":2,"bus_gbps":3.5},{"other":1},7]})");
  CHECK(slow.elsewhere == "too slow");
  CHECK(slow.error.empty());
  CHECK(slow.bus_gbps == 0);
  CHECK(slow.slow_links == std::vector<ObservedLink>{{1, 2, 3.5}});
  CHECK(across(R"({"slow_links":[{"node":1,"other":2,"bus_gbps":3.5}]})").is_well());
  // A gpu of one's own comes first, also where it is the only one.
  CHECK(JudgePreflight({"GPU-a"},
                       Wrote(R"({"devices":[{"fault":"slow"}],"across_nodes":{"fault":"x"}})"), 0)
            .faults.size() == 1);
}

TEST_CASE("preflight: the probe of a gang over nodes is told where the nodes meet") {
  const FakeProbe probe(
      "echo \"$* $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT\" > "
      "\"$(dirname \"$2\")/asked\"\n"
      "printf '{\"devices\":[{},{}],\"across_nodes\":{\"fault\":\"node 1 did not come\"}}' "
      "> \"$2\"");
  Preflights preflights(probe.folder);
  LaunchBody body = BodyOf(0);
  body.env = {{"GROUP_RANK", "0"}, {"GROUP_WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.7"}};
  body.port = 4711;
  body.rank_nodes = {NodeId{8}, NodeId{8}, NodeId{9}};
  CHECK(Asked(preflights, body, probe).error ==
        "node 1 did not come; from 0 on these are the nodes 8, 9");
  const std::string asked = *ReadFile(probe.folder / "asked");
  CHECK(Says(asked, "--across-nodes --meet-max 30 --links-max 6 0/2 10.0.0.7:4711"));
  // A gang on one node meets nobody.
  LaunchBody alone = BodyOf(0);
  ++alone.fence.attempt.number;
  alone.env = {{"GROUP_WORLD_SIZE", "1"}};
  alone.port = 4711;
  Asked(preflights, alone, probe);
  CHECK(!Says(*ReadFile(probe.folder / "asked"), "--across-nodes"));
}

TEST_CASE("preflight: the ranks of a node share one test, and another generation has its own") {
  const FakeProbe probe("echo run >> " + std::string("$(dirname \"$2\")/runs") + "\n" + "printf '" +
                        kWell + "' > \"$2\"");
  Preflights preflights(probe.folder);
  CHECK(Asked(preflights, BodyOf(0), probe).is_well());
  CHECK(Asked(preflights, BodyOf(1), probe).is_well());
  const auto runs = [&] { return *ReadFile(probe.folder / "runs"); };
  CHECK(runs() == "run\n");
  CHECK(!std::filesystem::exists(probe.report()));
  LaunchBody next = BodyOf(0);
  ++next.fence.attempt.generation;
  CHECK(Asked(preflights, next, probe).is_well());
  CHECK(runs() == "run\nrun\n");
  preflights.Forget(BodyOf(1).fence);
  CHECK(Asked(preflights, BodyOf(0), probe).is_well());
  CHECK(runs() == "run\nrun\nrun\n");
}

TEST_CASE("preflight: a rank that asks while another's test runs is told at its end") {
  const FakeProbe probe(
      "while [ ! -e \"$(dirname \"$2\")/go\" ]; do sleep 0.01; done\n"
      "printf '{\"devices\":[{\"fault\":\"slow\"},{}]}' > \"$2\"");
  Preflights preflights(probe.folder, 30'000);
  std::atomic<int> told = 0;
  const auto count = [&](const PreflightResult& result) {
    if (result.faults == std::vector<PreflightFault>{{"GPU-a", "slow"}}) ++told;
  };
  std::thread first([&] { preflights.Ask(BodyOf(0), probe.report(), count); });
  // It returns at once, unless it asks first itself: then this thread is the one that waits.
  std::thread second([&] { preflights.Ask(BodyOf(1), probe.report(), count); });
  REQUIRE(WriteFileAtomic(probe.folder / "go", "").ok());
  first.join();
  second.join();
  CHECK(told == 2);
}

TEST_CASE("preflight: a probe is ended after its time, and a node without one says so") {
  {
    const FakeProbe probe("exec sleep 60");
    Preflights preflights(probe.folder, 100);
    const PreflightResult hung = Asked(preflights, BodyOf(0), probe);
    REQUIRE(hung.faults.size() == 2);
    CHECK(Says(hung.faults[0].what, "did not end in time"));
  }
  const FakeProbe none("");
  std::filesystem::remove(none.folder / "rt-probe");
  Preflights preflights(none.folder);
  const PreflightResult missing = Asked(preflights, BodyOf(0), none);
  CHECK(missing.faults.empty());
  CHECK(Says(missing.error, "rt-probe is not installed here"));
}

TEST_CASE("preflight: a report that is far too long is not read, and a long fault is cut") {
  const FakeProbe probe("truncate -s 1G \"$2\"");
  Preflights preflights(probe.folder);
  const PreflightResult told = Asked(preflights, BodyOf(0), probe);
  CHECK(told.faults.empty());
  CHECK(Says(told.error, "is longer than 4194304 bytes"));
  CHECK(!std::filesystem::exists(probe.report()));
  const PreflightResult slow =
      Judged(R"({"devices":[{"fault":")" + std::string(100'000, 'x') + R"("},{}]})");
  CHECK(slow.faults.at(0).what.size() < 400);
  std::string links = R"({"node":0,"other":1,"bus_gbps":1})";
  for (int i = 0; i < 12; ++i) links += "," + links;
  CHECK(Judged(R"({"devices":[{},{}],"all_reduce":{"bus_gbps":300},"across_nodes":{"fault":"slow",)"
               R"("slow_links":[)" +
               links + "]}}")
            .slow_links.size() == limits::kSlowLinksMax);
}

TEST_CASE("preflight: it is for ranks that hold whole gpus") {
  CHECK(Preflights::IsFor(BodyOf(0)));
  CHECK(!Preflights::IsFor(BodyOf(0, {})));
  LaunchBody shared = BodyOf(0);
  shared.resources.gpu = kUnit / 2;
  CHECK(!Preflights::IsFor(shared));
  LaunchBody unasked = BodyOf(0);
  unasked.preflight = false;
  CHECK(!Preflights::IsFor(unasked));
}

}  // namespace rt::worker
