#include <thread>

#include "tests/unit/sinks_story.h"

using namespace rt;

TEST_CASE("sinks: rows become lines, and a late key gets its column") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5,"nested":{"a":1}})");
  story.WaitFlushed();
  CHECK(std::filesystem::exists(story.Directory() / "params.json"));
  story.Report(1, 2, R"({"loss":0.25,"late":"x,y"})");
  story.WaitFlushed();
  CHECK(story.JsonLines() == 2);
  const auto lines = Lines(story.Directory() / "progress.csv");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("loss,nested/a,"));
  CHECK(lines[0].ends_with(",late"));
  CHECK(lines[1].starts_with("0.5,1,"));
  CHECK(lines[1].ends_with(","));
  CHECK(lines[2].ends_with(",\"x,y\""));
  CHECK(lines[0].find("config") == std::string::npos);
}

TEST_CASE("sinks: after a restart files are cut to the cursor, so every row appears once") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.WaitFlushed();
  const std::string cursor = ReadText(story.folder.File("results.cursor"));
  story.Report(1, 2, R"({"loss":0.4})");
  story.WaitFlushed();
  story.sinks.reset();
  // The crash: rows were written, the cursor was not.
  std::ofstream(story.folder.File("results.cursor")) << cursor;
  std::ofstream(story.Directory() / "result.json", std::ios::app) << "{\"half";
  story.StartSinks();
  story.Report(1, 3, R"({"loss":0.3})");
  story.WaitFlushed();
  const auto lines = Lines(story.Directory() / "result.json");
  REQUIRE(lines.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(Json::Parse(lines[i])->GetInt("training_iteration") == static_cast<int64_t>(i) + 1);
  }
  CHECK(Lines(story.Directory() / "progress.csv").size() == 4);
}

TEST_CASE("sinks: a file that lost its end is written anew") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.WaitFlushed();
  std::filesystem::resize_file(story.Directory() / "result.json", 3);
  story.Report(1, 2, R"({"loss":0.4})");
  story.WaitFlushed();
  CHECK(story.JsonLines() == 2);
}

TEST_CASE("sinks: superseded rows are left out") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.Report(1, 2, R"({"loss":0.4})");
  story.Do(input::CommitCheckpoint{.fence = story.FenceOf(1), .manifest = std::string(64, 'a'),
                                   .row = {2, 2, 1, story.now, R"({"loss":0.4})"}, .bytes = 5});
  story.Report(1, 3, R"({"loss":0.3})");
  story.WaitFlushed();
  CHECK(story.JsonLines() == 3);
  story.Fail(1, 3);
  story.Run(2);
  story.Report(2, 1, R"({"loss":0.2})");
  story.WaitFlushed();
  const auto lines = Lines(story.Directory() / "result.json");
  REQUIRE(lines.size() == 3);
  CHECK(Json::Parse(lines[1])->GetDouble("loss") == 0.4);
  CHECK(Json::Parse(lines[2])->GetDouble("loss") == 0.2);
  CHECK(Lines(story.Directory() / "progress.csv").size() == 4);
}

TEST_CASE("sinks: a row of 60 000 metrics costs time in proportion to its length") {
  Story story;
  story.Run(1);
  for (uint64_t seq = 1; seq <= 4; ++seq) {
    std::string metrics = "{";
    for (int key = 0; key < 60'000; ++key) {
      metrics += (key == 0 ? "\"" : ",\"") + ("k" + std::to_string(key)) + "\":1";
    }
    story.Report(1, seq, metrics + "}");
  }
  story.WaitFlushed();
  story.WaitLines(4, 5);
  CHECK(story.JsonLines() == 4);
}

TEST_CASE("sinks: a trial that reports a new metric with every row does not cost a rewrite each") {
  Story story;
  story.Run(1);
  for (uint64_t seq = 1; seq <= 2'000; ++seq) {
    if (seq % 500 == 0) story.Sync();
    story.Report(1, seq, "{\"k" + std::to_string(seq) + "\":1}");
    if (seq % 10 == 0) story.sinks->Wake();
  }
  story.WaitFlushed();
  story.WaitLines(2'000, 2'001);
  CHECK(story.JsonLines() == 2'000);
  CHECK(Lines(story.Directory() / "progress.csv").size() == 2'001);
}
