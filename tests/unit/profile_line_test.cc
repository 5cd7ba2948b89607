// The profile lines of an elastic attempt, as its worker daemon takes them.
#include "worker/session/profile_line.h"

#include <catch2/catch.hpp>

#include "common/base/limits_elastic.h"
#include "common/base/status.h"

using namespace rt;
using rt::worker::ProfileQueue;
using rt::worker::ReadProfile;

namespace {

constexpr char kLine[] =
    R"({"max_batch":512,"local_bounds":[8,128],"initial_batch":16,"accumulation":true,
        "progress":120.5,"total":null,"sqr":0.031,"var":0.84,"noise_weight":60,"points":[
        {"nodes":1,"ranks":2,"local":32,"accum":1,"gpu_type":"","count":40,
         "step":[0.0042,1e-7],"sync":[0.0006,2e-8]}]})";

Json Parsed(const std::string& text) {
  auto json = Json::Parse(text);
  REQUIRE(json.ok());
  return *std::move(json);
}

// The line with one of its parts replaced.
std::string Why(const std::string& part, const std::string& instead) {
  std::string text = kLine;
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  text.replace(at, part.size(), instead);
  const auto read = ReadProfile(Parsed(text));
  return read.ok() ? "" : MessageOf(read.status());
}

ElasticProfile Steps(uint64_t count) {
  auto profile = ReadProfile(Parsed(kLine));
  REQUIRE(profile.ok());
  profile->points[0].count = count;
  return *std::move(profile);
}

}  // namespace

TEST_CASE("profile line: it is read as docs/trial-protocol.md has it") {
  const auto profile = ReadProfile(Parsed(kLine));
  REQUIRE(profile.ok());
  CHECK(profile->batches ==
        BatchLimits{
            .initial = 16, .most = 512, .local_min = 8, .local_max = 128, .accumulates = true});
  CHECK(profile->noise == GradientNoise{0.031, 0.84});
  CHECK(profile->noise_weight == 60);
  CHECK(profile->progress == 120.5);
  CHECK(profile->total == 0);
  REQUIRE(profile->points.size() == 1);
  const StepPoint expected{.nodes = 1,
                           .ranks = 2,
                           .local_batch = 32,
                           .accumulation = 1,
                           .gpu_type = "",
                           .count = 40,
                           .step_mean = 0.0042,
                           .step_variance = 1e-7,
                           .sync_mean = 0.0006,
                           .sync_variance = 2e-8};
  CHECK(profile->points[0] == expected);
}

TEST_CASE("profile line: what cannot be measured is refused by name") {
  CHECK(Why("\"sqr\":0.031", "\"sqr\":0.031").empty());
  CHECK(Why("\"initial_batch\":16", "\"initial_batch\":\"16\"").find("initial_batch") !=
        std::string::npos);
  CHECK(Why("\"initial_batch\":16", "\"initial_batch\":0").find("initial_batch") !=
        std::string::npos);
  CHECK(Why("[8,128]", "[128]").find("local_bounds") != std::string::npos);
  CHECK(Why("[8,128]", "[-1,128]").find("local_bounds") != std::string::npos);
  CHECK(Why("\"count\":40", "\"count\":-3").find("count") != std::string::npos);
  CHECK(Why("\"count\":40", "\"count\":1e30").find("count") != std::string::npos);
  CHECK(Why("\"local\":32", "\"local\":1.5").find("local") != std::string::npos);
  CHECK(Why("[0.0042,1e-7]", "[-1,1e-7]").find("a point") != std::string::npos);
  CHECK(Why("[0.0042,1e-7]", "[1e300,1e-7]").find("a point") != std::string::npos);
  CHECK(Why("[0.0042,1e-7]", "7").find("step") != std::string::npos);
  CHECK(Why("\"var\":0.84", "\"var\":-1").find("var") != std::string::npos);
  CHECK(Why("\"points\":[", "\"points\":7,\"was\":[").find("points") != std::string::npos);
  CHECK_FALSE(ReadProfile(Json()).ok());
  // A step whose synchronisation is all of it has no time of its own: a rounding.
  CHECK(Why("[0.0006,2e-8]", "[0.0042,2e-8]").empty());
}

TEST_CASE("profile queue: a line without a number, or with a wrong profile, changes nothing") {
  ProfileQueue queue;
  const std::string elastic = kLine;
  CHECK(MessageOf(queue.AddLine(Parsed(R"({"elastic":)" + elastic + "}"))).find("seq") !=
        std::string::npos);
  CHECK_FALSE(queue.AddLine(Parsed(R"({"seq":1})")).ok());
  CHECK_FALSE(queue.AddLine(Parsed(R"({"seq":1,"elastic":7})")).ok());
  CHECK_FALSE(queue.Next().has_value());
  CHECK(queue.NoteDropped());
  CHECK_FALSE(queue.NoteDropped());
  CHECK(queue.AddLine(Parsed(R"({"seq":1,"elastic":)" + elastic + "}")).ok());
  REQUIRE(queue.Next().has_value());
  CHECK(queue.Next()->seq == 1);
}

TEST_CASE("profile queue: each measurement is sent until it is recorded, and once") {
  ProfileQueue queue;
  CHECK_FALSE(queue.Next().has_value());
  queue.Add(1, Steps(4));
  queue.Add(2, Steps(3));
  queue.Add(2, Steps(3));  // Repeated after a lost connection.
  REQUIRE(queue.Next().has_value());
  CHECK(queue.Next()->seq == 2);
  CHECK(queue.Next()->profile.points[0].count == 7);
  queue.Add(3, Steps(5));
  CHECK(queue.Next()->profile.points[0].count == 7);  // As it was sent.
  queue.NoteRecorded(1);
  CHECK(queue.Next()->seq == 2);
  queue.NoteRecorded(2);
  CHECK(queue.Next()->seq == 3);
  CHECK(queue.Next()->profile.points[0].count == 5);
  queue.NoteRecorded(3);
  CHECK_FALSE(queue.Next().has_value());
}
