#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "cli/doctor.h"
#include "tests/temp_dir.h"

using namespace rt;
using Grade = Finding::Grade;

TEST_CASE("doctor: a head that lacks what its workers know") {
  const auto judge = [](const std::string& cluster) {
    return JudgeHistory(*Json::Parse("{\"cluster\":" + cluster + "}"));
  };
  CHECK(judge("{}").grade == Grade::kOk);  // An older head.
  CHECK(judge(R"({"other_head":null,"rolled_back":null})").grade == Grade::kOk);
  const Finding other = judge(R"({"epoch":2,"other_head":{"epoch":5,"heard_by":"a"}})");
  CHECK(other.grade == Grade::kFail);
  CHECK(other.message ==
        "node a does not believe this head: it has heard one of epoch 5, this one's is 2");
  CHECK(other.hint.find("--restored") != std::string::npos);
  const Finding lost =
      judge(R"({"rolled_back":{"seq":10,"seen_seq":14,"records_lost":4}})");
  CHECK(lost.grade == Grade::kWarn);
  CHECK(lost.message.find("lacks its last 4 records or more") != std::string::npos);
}

TEST_CASE("doctor: a head that has no descriptor left for connections fails") {
  const auto judge = [](const char* text) { return JudgePort(*Json::Parse(text), "answers"); };
  CHECK(judge("{}").grade == Grade::kOk);  // An older head.
  CHECK(judge(R"({"port_problem":null})").message == "answers");
  const Finding full = judge(R"({"port_problem":"connections were closed"})");
  CHECK(full.grade == Grade::kFail);
  CHECK(full.message == "answers, but connections were closed");
}

TEST_CASE("doctor: little room on a disk warns, none fails, and both say what to do") {
  constexpr double kGib = 1 << 30;
  CHECK(JudgeDisk("/d", 50 * kGib, 100 * kGib).grade == Grade::kOk);
  CHECK(JudgeDisk("/d", 1 * kGib, 10 * kGib).grade == Grade::kWarn);
  CHECK(JudgeDisk("/d", 20 * kGib, 1000 * kGib).grade == Grade::kWarn);
  CHECK(JudgeDisk("/d", 0.01 * kGib, 100 * kGib).grade == Grade::kFail);
  CHECK(!JudgeDisk("/d", 0, 1).hint.empty());
}

TEST_CASE("doctor: what the round trip explains is no difference of clocks") {
  CHECK(JudgeClock(2, 4).grade == Grade::kOk);
  CHECK(JudgeClock(-2, 0.01).grade == Grade::kWarn);
  CHECK(JudgeClock(-2, 0.01).message.find("behind") != std::string::npos);
  CHECK(JudgeClock(100, 0.01).grade == Grade::kFail);
}

TEST_CASE("doctor: a certificate that expires soon warns, an expired one fails") {
  CHECK(JudgeCertificate("it", 100 * 86'400.0).grade == Grade::kOk);
  CHECK(JudgeCertificate("it", 86'400.0).grade == Grade::kWarn);
  CHECK(JudgeCertificate("it", -1).grade == Grade::kFail);
}

TEST_CASE("doctor: nodes that are lost, of another version, or with a sick gpu") {
  auto grade = [](const char* text) { return JudgeNode(*Json::Parse(text), "1").grade; };
  CHECK(grade(R"({"name":"n","state":"READY","version":"1"})") == Grade::kOk);
  CHECK(grade(R"({"name":"n","state":"READY","version":"2"})") == Grade::kWarn);
  CHECK(grade(R"({"name":"n","state":"READY","version":"1","reason":"two programs"})") ==
        Grade::kWarn);
  CHECK(grade(R"({"name":"n","state":"SUSPECT","version":"1"})") == Grade::kWarn);
  CHECK(grade(R"({"name":"n","state":"LOST","version":"1"})") == Grade::kFail);
  CHECK(grade(R"({"name":"n","state":"READY","gpus":[{"uuid":"G","state":"UNHEALTHY"}]})") ==
        Grade::kWarn);
}

TEST_CASE("doctor: a checkpoint store warns from 90 % of its quota, and fails while it refuses") {
  auto judge = [](const std::string& store) {
    return JudgeStore(*Json::Parse("{\"checkpoint_store\":" + store + "}"));
  };
  CHECK(JudgeStore(*Json::Parse("{}")).grade == Grade::kOk);  // An older head.
  CHECK(judge(R"({"used_bytes":900,"quota_bytes":null,"refused":false})").grade == Grade::kOk);
  CHECK(judge(R"({"used_bytes":899,"quota_bytes":1000,"refused":false})").grade == Grade::kOk);
  Finding nearly = judge(R"({"used_bytes":900,"quota_bytes":1000,"refused":false})");
  CHECK(nearly.grade == Grade::kWarn);
  CHECK(nearly.hint.find("checkpoint_store/quota") != std::string::npos);
  Finding full = judge(R"({"used_bytes":900,"quota_bytes":1000,"refused":true,"reason":"no"})");
  CHECK(full.grade == Grade::kFail);
  CHECK(full.message == "900 B of 1000 B used: new checkpoints wait (no)");
  CHECK(judge(R"({"used_bytes":9,"quota_bytes":null,"refused":true,"reason":"disk"})").grade ==
        Grade::kFail);
}

TEST_CASE("doctor: a probe that prints no report, or one without gpus, warns") {
  TempDir dir("doctor");
  const std::string probe = dir.File("rt-probe");
  ::setenv("RT_PROBE", probe.c_str(), 1);
  const auto said = [&](const std::string& script) {
    std::ofstream(probe) << "#!/bin/sh\n" << script << "\n";
    REQUIRE(::chmod(probe.c_str(), 0700) == 0);
    Json report;
    const Finding first = ExamineGpus(report, 60'000).at(0);
    CHECK(first.grade == Grade::kWarn);
    return first.message;
  };
  CHECK(said("exit 0") == "rt-probe printed no report: exit code 0");
  CHECK(said("echo no; exit 3") == "rt-probe printed no report: exit code 3: no");
  CHECK(said("yes | head -c 5000").size() < 400);
  CHECK(said("echo '{\"schema\": 1}'") == "rt-probe reports no gpu");
  CHECK(said("echo '{\"devices\": [3]}'") == "rt-probe reports no gpu");
  ::unsetenv("RT_PROBE");
}

TEST_CASE("doctor: a probe that hangs fails, and is not called missing") {
  TempDir dir("doctor");
  const std::string probe = dir.File("rt-probe");
  std::ofstream(probe) << "#!/bin/sh\nexec sleep 60\n";
  REQUIRE(::chmod(probe.c_str(), 0700) == 0);
  ::setenv("RT_PROBE", probe.c_str(), 1);
  Json report;
  const std::vector<Finding> findings = ExamineGpus(report, 500);
  ::unsetenv("RT_PROBE");
  REQUIRE(!findings.empty());
  CHECK(findings[0].grade == Grade::kFail);
  CHECK(findings[0].message == probe + " did not end within 500 ms: the driver or a gpu hangs");
  CHECK(findings[0].hint.find("rt node show NODE") != std::string::npos);
  CHECK(!report.is_object());
}
