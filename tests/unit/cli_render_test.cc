#include <catch2/catch.hpp>

#include "cli/render/error.h"
#include "cli/render/gpus.h"
#include "cli/render/nouns.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"

using namespace rt;

TEST_CASE("table: at most 100 columns, and no control character gets through") {
  Table table({"ID", "TEXT"});
  table.Add({"1", std::string(300, 'x')});
  table.Add({"2", "\x1b[31m"});
  for (const std::string& line : Split(table.Render(), '\n')) CHECK(line.size() <= 102);
  CHECK(table.Render().find('\x1b') == std::string::npos);
}

TEST_CASE("table: no name of a metric and no cell drives a terminal or turns its line around") {
  Table table({"ID", "loss\x1b[2J\xc2\x9b"});
  table.Add({"1", "\xe2\x80\xae" "fdp.exe"});
  CHECK(table.Render() == "ID  loss\\x1b[2J\\u009b\n1   \\u202efdp.exe\n");
}

TEST_CASE("error: neither the message nor the hint drives a terminal") {
  const std::string text = RenderError(Invalid("a\xc2\x9b" "b", "try \xe2\x80\xae"), Invocation());
  CHECK(text == "rt: a\\u009bb\nhint: try \\u202e\n");
}

TEST_CASE("error: the line is quoted of a spec, and of no other file") {
  TempDir temp("error");
  const std::string path = temp.path() + "/x.yaml";
  const absl::Status status = WithPosition(Invalid("bad"), {.file = path, .line = 2, .column = 3});
  auto shown = [&](const std::string& text) {
    REQUIRE(WriteFileAtomic(path, text).ok());
    return RenderError(status, Invocation());
  };
  const std::string quoted = path + ":2:3: bad\n  secret: [x\n    ^\n";
  CHECK(shown("a: 1\nsecret: [x\nexperiment: e\n") == quoted);
  CHECK(shown("\xef\xbb\xbf"
              "cluster_name: c\nsecret: [x\n") == quoted);
  CHECK(shown("{\"experiment\": e,\nsecret: [x\n") == quoted);
  CHECK(shown("-----BEGIN PRIVATE KEY-----\nsecret: [x\n") == path + ":2:3: bad\n");
  CHECK(shown("a: 1\nsecret: [x\nexperimental: e\n") == path + ":2:3: bad\n");
}

TEST_CASE("error: exit codes are those of the interface") {
  CHECK(ExitCodeOf(Invalid("x")) == 2);
  CHECK(ExitCodeOf(NotFound("x")) == 3);
  CHECK(ExitCodeOf(absl::UnavailableError("x")) == 4);
  CHECK(ExitCodeOf(absl::PermissionDeniedError("x")) == 5);
  CHECK(ExitCodeOf(absl::DeadlineExceededError("x")) == 124);
  CHECK(ExitCodeOf(absl::InternalError("x")) == 1);
}

TEST_CASE("error: JSON has every field, null when absent") {
  Invocation invocation;
  invocation.output = Output::kJson;
  absl::Status status = WithPosition(Invalid("bad", "try"), {.file = "f", .line = 2, .column = 3});
  CHECK(RenderError(status, invocation) ==
        "{\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"bad\",\"hint\":\"try\","
        "\"file\":\"f\",\"line\":2,\"column\":3}}\n");
  CHECK(RenderError(NotFound("x"), invocation).find("\"line\":null") != std::string::npos);
}

TEST_CASE("nouns: quiet prints ids, tables print states") {
  Invocation quiet;
  quiet.output = Output::kQuiet;
  std::vector<Json> items = {Json::MakeObject({{"id", "1/0"}, {"state", "RUNNING"}})};
  CHECK(RenderItems(Noun::kTrial, items, quiet) == "1/0\n");
  CHECK(RenderItems(Noun::kTrial, items, Invocation()).find("RUNNING") != std::string::npos);
}

TEST_CASE("render: a gpu of a node is one line, without what the device does not tell") {
  const auto text = [](const std::string& more) {
    return GpuText(*Json::Parse(R"({"index":3,"name":"NVIDIA H100","memory_bytes":85899345920,)" +
                                more + "}"));
  };
  CHECK(text(R"("state":"READY","reason":null,"telemetry":null)") ==
        "3 READY NVIDIA H100, 80.0 GiB: no sample yet");
  CHECK(text(R"("state":"READY","reason":null,"telemetry":{"utilisation_percent":97,)"
             R"("memory_used_bytes":1073741824,"temperature_c":61,"power_w":423.5,"sm_mhz":null,)"
             R"("throttled_by":["power","thermal"],"processes":[)"
             R"({"pid":77,"name":"python","attempt":"t1-0.a1.r0"},{"pid":9,"name":null}]})") ==
        "3 READY NVIDIA H100, 80.0 GiB: 97 % busy, 1.0 GiB in use, 61 C, 423.5 W; slowed by power "
        "and "
        "thermal; pid 77 (python, trial 1/0 (attempt 1)); pid 9");
  CHECK(text(R"("state":"QUARANTINED","reason":"Xid 79: it is gone","telemetry":null)") ==
        "3 QUARANTINED NVIDIA H100, 80.0 GiB (Xid 79: it is gone): no sample yet");
}
