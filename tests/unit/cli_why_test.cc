// The sentences of `rt trial why` and `rt node why`.
#include <catch2/catch.hpp>

#include "cli/render/why.h"
#include "common/base/strings.h"
#include "tests/unit/cli_text.h"

using namespace rt;

namespace {

// Of a trial that is over, after one attempt.
std::string WhyEnded(const std::string& attempt) {
  const Json trial = Parsed(R"({"id":"1/0","state":"STOPPED","reason":"","attempts":[
      {"number":1,"members":[],"ended_at":"2026-01-01T00:00:00.000Z",)" +
                            attempt + "}]}");
  return Join(WhyTrial(trial, Json::MakeArray()), "\n");
}

}  // namespace

TEST_CASE("why: what rt ended has the name of the signal, and no signal counts as a kill") {
  const std::string text = WhyEnded(
      R"("outcome":"STOPPED","signal":15,"exit_code":null,"reason":"killed by signal 15")");
  CHECK(Has(text, ": stopped; ended by rt (SIGTERM)"));
  CHECK_FALSE(Has(text, "killed"));
  CHECK_FALSE(Has(text, "signal 15"));
}

TEST_CASE("why: an exit code and a signal are said once") {
  CHECK(Has(WhyEnded(R"("outcome":"FAILED","exit_code":3,"reason":"exited with code 3")"),
            ": failed; exited with code 3"));
  CHECK_FALSE(Has(WhyEnded(R"("outcome":"FAILED","exit_code":3,"reason":"exited with code 3")"),
                  "exit code"));
  CHECK(Has(WhyEnded(R"("outcome":"FAILED","signal":9,"reason":"it grew to 530 MiB")"),
            ": failed; it grew to 530 MiB; killed by signal 9"));
  CHECK(Has(WhyEnded(R"("outcome":"LOST","reason":"node a was lost")"), ": lost; node a was lost"));
}

TEST_CASE("why: a trial that waits has a sentence with a subject") {
  const auto waits = [](const std::string& reason) {
    const Json trial =
        Json::MakeObject({{"id", "1/0"},
                          {"state", "PENDING"},
                          {"waiting", Json::MakeObject({{"reason", reason}, {"frees", ""}})}});
    return WhyTrial(trial, Json::MakeArray())[1];
  };
  CHECK(waits("needs 1 cpu; no node has one free") == "it needs 1 cpu; no node has one free");
  CHECK(waits("paused by alice") == "it is paused by alice");
  CHECK(waits("its experiment is paused by alice") == "its experiment is paused by alice");
}

TEST_CASE("why: a node names what runs there as people do") {
  CHECK(RunText("t2-0.a1.r0") == "trial 2/0 (attempt 1)");
  CHECK(RunText("t2-0.a3.r1") == "trial 2/0 (attempt 3, rank 1)");
  CHECK(RunText("j4.a1.r0") == "job 4 (attempt 1)");
  const Json node = Parsed(R"({"name":"a","state":"READY","attempts":["t2-0.a1.r0"]})");
  CHECK(WhyNode(node, Json()).back() == "runs: trial 2/0 (attempt 1)");
}
