#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/job_spec.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> Parse(const std::string& more) {
  return ParseExperimentSpec(*Json::Parse(R"({"experiment":"e","command":["x"],)" + more + "}"));
}

}  // namespace

TEST_CASE("policies: the defaults watch nobody and forgive nothing; a broken search stops") {
  const auto spec = Parse(R"("num_samples":1)");
  REQUIRE(spec.ok());
  CHECK(spec->retry.empty());
  CHECK(spec->breaker.trials == 5);
  CHECK(spec->breaker.within == 60'000);
  CHECK(spec->watchdog.factor == 0);
}

TEST_CASE("policies: all keys") {
  const auto spec = Parse(
      R"x("retry":[{"exit_code":137,"then":"retry"},{"exit_code":[1,2],"log":"CUDA|NCCL",
         "then":"exclude_node"},{"log":"no such file","then":"fail"}],
         "breaker":{"trials":3,"within":"2m"},
         "watchdog":{"factor":10,"min":0.5,"restarts":0,"dump":true})x");
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  REQUIRE(spec->retry.size() == 3);
  CHECK(spec->retry[0].Matches(137, false));
  CHECK_FALSE(spec->retry[0].Matches(1, true));
  CHECK(spec->retry[1].Matches(2, true));
  CHECK_FALSE(spec->retry[1].Matches(2, false));
  CHECK(spec->retry[2].Matches(99, true));
  CHECK(spec->retry[2].then == RetryAction::kFail);
  CHECK(spec->breaker.within == 120'000);
  CHECK(spec->watchdog.min == 500);
  CHECK(spec->watchdog.restarts == 0);
  CHECK(spec->watchdog.dump);
  CHECK(Parse(R"("breaker":false)")->breaker.trials == 0);
}

TEST_CASE("policies: a rule for programs that ran out of gpu memory, alone and with an exit code") {
  const auto spec = Parse(R"("retry":[{"oom":true,"then":"fail"},
                                      {"oom":true,"exit_code":3,"then":"exclude_node"}])");
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  CHECK(spec->retry[0].Matches(1, false, true));
  CHECK_FALSE(spec->retry[0].Matches(1, true, false));
  CHECK(spec->retry[1].Matches(3, false, true));
  CHECK_FALSE(spec->retry[1].Matches(1, false, true));
}

TEST_CASE("policies: mistakes name their path") {
  const auto check = [](const std::string& more, const std::string& path,
                        const std::string& message) {
    const absl::Status status = Parse(more).status();
    INFO(more << ": " << status.ToString());
    REQUIRE(!status.ok());
    CHECK(SpecPathOf(status) == path);
    CHECK(MessageOf(status).find(message) != std::string::npos);
  };
  check(R"("retry":{})", "retry", "list");
  check(R"("retry":[{"then":"retry"}])", "retry/0", "needs 'exit_code', 'log' or 'oom'");
  check(R"("retry":[{"oom":false,"then":"fail"}])", "retry/0/oom", "must be true");
  check(R"("retry":[{"exit_code":1,"then":"again"}])", "retry/0/then", "must be retry, fail");
  check(R"("retry":[{"exit_code":1}])", "retry/0", "must be retry, fail");
  check(R"("retry":[{"exit_code":0,"then":"fail"}])", "retry/0/exit_code", "from 1 to 255");
  check(R"("retry":[{"exit_code":[1,"x"],"then":"fail"}])", "retry/0/exit_code", "from 1 to 255");
  check(R"x("retry":[{"log":"(a","then":"fail"}])x", "retry/0/log", "not a regular expression");
  check(R"x("retry":[{"log":"(a)\\1","then":"fail"}])x", "retry/0/log",
        "invalid escape sequence: \\1, at character 4");
  check(R"x("retry":[{"log":"(?:a?){9000}b","then":"fail"}])x", "retry/0/log",
        "invalid repetition size: {9000}, at character 7");
  check(R"x("retry":[{"exit_code":1,"then":"fail"},{"log":"x(?=y)","then":"fail"}])x",
        "retry/1/log", "(?=, at character 2");
  check(R"("retry":[{"exitcode":1,"then":"fail"}])", "retry/0/exitcode", "unknown key");
  check(R"("breaker":true)", "breaker", "false or a map");
  check(R"("breaker":{"trials":-1})", "breaker/trials", "between 0");
  check(R"("breaker":{"within":0})", "breaker/within", "must be a time");
  check(R"("watchdog":{})", "watchdog", "'factor'");
  check(R"("watchdog":{"factor":1})", "watchdog/factor", "above 1");
  check(R"("watchdog":{"factor":2,"min":"soon"})", "watchdog/min", "must be a time");
  check(R"("watchdog":{"factor":2,"dump":1})", "watchdog/dump", "true or false");
}

TEST_CASE("policies: suspend is a switch, and is kept with the experiment") {
  const auto parse = [](const std::string& more) {
    return ParseExperimentSpec(*Json::Parse(R"({"experiment":"e","command":["x"])" + more + "}"));
  };
  CHECK_FALSE(parse("")->suspend);
  CHECK(NormalText(*parse("")).find("suspend") == std::string::npos);
  const auto spec = parse(R"(,"suspend":true)");
  REQUIRE(spec.ok());
  CHECK(spec->suspend);
  CHECK(ReadJournalledExperiment({.normal = NormalText(*spec), .format = 2}).spec.suspend);
  CHECK(MessageOf(parse(R"(,"suspend":"yes")").status()).starts_with("suspend: "));
  // Of containers that another daemon starts.
  const auto runs = [](const std::string& program) {
    return ParseExperimentSpec(*Json::Parse(R"({"experiment":"e","suspend":true,"command":[")" +
                                            program + R"(","run"]})"));
  };
  CHECK(MessageOf(runs("/usr/bin/docker").status()) ==
        "suspend: stops the processes of a trial, and a container that 'docker' starts is none of "
        "them");
  CHECK(!runs("podman").ok());
  CHECK(runs("my-docker").ok());
  CHECK(runs("apptainer").ok());
}

TEST_CASE("policies: a preflight is for whole gpus, and is kept with the experiment") {
  const auto parse = [](const std::string& more) {
    return ParseExperimentSpec(*Json::Parse(R"({"experiment":"e","command":["x"],)" + more + "}"));
  };
  const auto refusal = [&](const std::string& more) {
    const absl::Status status = parse(more).status();
    INFO(more);
    REQUIRE(!status.ok());
    return MessageOf(status);
  };
  const std::string gang = R"("resources":{"gpu":1,"ranks":4},)";
  CHECK(!parse(gang + R"("preflight":false)")->preflight.wanted);
  CHECK(parse(gang + R"("preflight":true)")->preflight.wanted);
  const auto spec = parse(gang + R"("preflight":{"min_bus_gbps":200.5})");
  REQUIRE(spec.ok());
  CHECK(spec->preflight.min_bus_gbps == 200.5);
  const auto read = ReadJournalledExperiment({.normal = NormalText(*spec), .format = 2});
  CHECK(read.spec.preflight.wanted);
  CHECK(read.spec.preflight.min_bus_gbps == 200.5);
  CHECK(NormalText(*parse(gang + R"("preflight":false)")).find("preflight") == std::string::npos);
  CHECK(refusal(R"("preflight":true)") == "preflight: tests gpus, and the resources ask for none");
  CHECK(refusal(R"("resources":{"gpu":0.5},"preflight":true)") ==
        "preflight: tests whole gpus, and 0.5 of one is shared with other trials");
  CHECK(refusal(R"("resources":{"gpu":1},"preflight":{"min_bus_gbps":1})") ==
        "preflight/min_bus_gbps: is measured between gpus, and there is one");
  // A job has one as well.
  const auto parse_job = [](const std::string& more) {
    return ParseJobSpec(*Json::Parse(R"({"argv":["x"],)" + more + "}"));
  };
  const auto job = parse_job(R"("resources":{"gpu":2},"preflight":{"min_bus_gbps":7})");
  REQUIRE(job.ok());
  const auto kept = ReadJournalledJob({.normal = NormalText(*job), .format = 2});
  CHECK(kept.warnings.empty());
  CHECK(kept.spec.preflight.wanted);
  CHECK(kept.spec.preflight.min_bus_gbps == 7);
  CHECK(MessageOf(parse_job(R"("preflight":true)").status()) ==
        "preflight: tests gpus, and the resources ask for none");
  CHECK(refusal(gang + R"("preflight":"yes")").find("true, false or a map") != std::string::npos);
  CHECK(refusal(gang + R"("preflight":{"min":1})").find("unknown key") != std::string::npos);
  CHECK(refusal(gang + R"("preflight":{"min_bus_gbps":0})").find("above 0") != std::string::npos);
}
