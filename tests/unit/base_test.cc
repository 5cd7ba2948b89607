#include <catch2/catch.hpp>

#include "common/base/crc32c.h"
#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/time.h"

using namespace rt;

TEST_CASE("bytes for people") {
  CHECK(BytesText(0) == "0 B");
  CHECK(BytesText(1023) == "1023 B");
  CHECK(BytesText(1536) == "1.5 KiB");
  CHECK(BytesText((int64_t{1} << 30) - 1) == "1.0 GiB");
  CHECK(BytesText(int64_t{500} << 30) == "500.0 GiB");
  CHECK(BytesText(int64_t{3} << 50) == "3072.0 TiB");
}

TEST_CASE("json: what was written reads back the same") {
  const char* text = R"({"a":1,"b":[1.5,null,true,"x\n"],"c":{"d":-3}})";
  auto json = Json::Parse(text);
  REQUIRE(json.ok());
  CHECK(json->Dump() == text);
  CHECK(json->GetInt("a") == 1);
  CHECK(FindFlat(*json, "c/d")->AsInt() == -3);
}

TEST_CASE("json: whole floats stay floats, and NaN has a spelling") {
  CHECK(Json(2.0).Dump() == "2.0");
  CHECK(Json(2).Dump() == "2");
  CHECK(Json(0.1).Dump() == "0.1");
  CHECK(Json::Parse("NaN")->Dump() == "\"NaN\"");
  CHECK(IsValidUtf8(Json::Parse(R"({"a\udce9":"b\udce9"})")->Dump()));
}

TEST_CASE("json: numbers of any length are read, or refused") {
  const std::string digits(60, '1');
  CHECK_FALSE(Json::Parse("[1." + digits + "e360]").ok());
  CHECK_FALSE(Json::Parse("[-1." + digits + "e360]").ok());
  CHECK(Json::Parse("[1." + digits + "e-400]")->array()[0].AsDouble() == 0);
  CHECK(Json::Parse("[1." + digits + "e307]")->array()[0].AsDouble() > 1.1e307);
  CHECK(Json::Parse("[0.1]")->array()[0].AsDouble() == 0.1);
  CHECK(Json::Parse("[-9223372036854775808]")->array()[0].AsInt() == INT64_MIN);
  CHECK(Json::Parse("[9223372036854775808]")->array()[0].is_double());
  CHECK(Json::Parse("[-0]")->array()[0].is_int());
  CHECK(std::isinf(Json::Parse("[-Infinity]")->array()[0].AsDouble()));
  CHECK(std::isnan(Json::Parse("[NaN]")->array()[0].AsDouble()));
}

TEST_CASE("json: mistakes are named with line and column") {
  auto json = Json::Parse("{\"a\": 1,\n \"a\": 2}");
  REQUIRE(!json.ok());
  CHECK(MessageOf(json.status()).find("duplicate key \"a\"") != std::string::npos);
  CHECK(PositionOf(json.status()).line == 2);
  CHECK(!Json::Parse("").ok());
  CHECK(!Json::Parse("{} x").ok());
  CHECK(!Json::Parse(std::string(200, '[')).ok());
  CHECK(!Json::Parse("\"\xff\"").ok());
}

TEST_CASE("ids: a fence's name reads back") {
  Fence fence{{Owner::Of(TrialId{{3}, 12}), 2, 1}, 4};
  CHECK(ToString(fence) == "t3-12.a2.r4");
  CHECK(ParseFence("t3-12.a2.r4") == fence);
  fence.attempt.generation = 3;
  CHECK(ParseFence(ToString(fence)) == fence);
  CHECK(ParseFence("j4.a1.r0") == Fence{{Owner::Of(JobId{4}), 1, 1}, 0});
  CHECK(!ParseFence("t3.a2.r4"));
  CHECK(!ParseFence("t3-1.a2.r4x"));
  CHECK(ParseTrialId("3/0") == TrialId{{3}, 0});
}

TEST_CASE("strings: sizes, durations, near words, base64") {
  CHECK(ParseBytes("8GiB") == int64_t{8} << 30);
  CHECK(ParseBytes("1.5K") == 1500);
  CHECK(!ParseBytes("-1"));
  CHECK(!ParseBytes("8XB"));
  CHECK(ParseDurationSeconds("1h30m") == 5400.0);
  CHECK(ParseDurationSeconds("90") == 90.0);
  CHECK(!ParseDurationSeconds("soon"));
  CHECK(DidYouMean("num_sampels", {"num_samples", "metric"}) == "did you mean 'num_samples'?");
  CHECK(DidYouMean("zebra", {"num_samples", "metric"}).empty());
  CHECK(DidYouMean("shwo", {"list", "show"}) == "did you mean 'show'?");
  CHECK(DidYouMean("experiment", {"job", "exp"}) == "did you mean 'exp'?");
  for (std::string text : {"", "a", "ab", "abc", "abcd"})
    CHECK(Base64Decode(Base64Encode(text)) == text);
  CHECK(FromHex(ToHex("\x01\xff")) == "\x01\xff");
  CHECK(EscapeControl("a\x1b[2J") == "a\\x1b[2J");
  CHECK(EscapeControl("a\xc2\x9b" "2J") == "a\\u009b2J");                     // C1.
  CHECK(EscapeControl("a\x9b" "2J\xc2") == "a\\x9b2J\\xc2");                  // No UTF-8.
  CHECK(EscapeControl("a\xe2\x80\xae" "b\xe2\x81\xa6") == "a\\u202eb\\u2066");  // Bidirectional.
  CHECK(EscapeControl("\xd8\x9c\xe2\x80\xa8\x7f") == "\\u061c\\u2028\\x7f");
  CHECK(EscapeControl("é – 日本 \xf0\x9f\x98\x80…") == "é – 日本 \xf0\x9f\x98\x80…");
  CHECK(IsValidUtf8("é"));
  CHECK(!IsValidUtf8("\xc0\x80"));
  CHECK(ValidUtf8("caf\xe9.png") == "caf\xef\xbf\xbd.png");
  CHECK(ValidUtf8("\xed\xb3\xa9") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // A surrogate.
  CHECK(ValidUtf8("aéb", 2) == "a");
  CHECK(ValidUtf8("aéb", 3) == "aé");
  CHECK(ValidUtf8("aéb") == "aéb");
}

TEST_CASE("time: milliseconds print as ISO 8601 in UTC") {
  CHECK(FormatTime(1'700'000'000'123) == "2023-11-14T22:13:20.123Z");
  CHECK(FormatTime(0).empty());
}

TEST_CASE("rng: the same name gives the same draws, another stream others") {
  Rng a(7, 1), b(7, 1), c(7, 2);
  uint64_t first = a.Next();
  CHECK(first == b.Next());
  CHECK(first != c.Next());
  for (int i = 0; i < 1000; ++i) {
    CHECK(a.Below(3) < 3);
    double u = a.Uniform();
    CHECK((u >= 0 && u < 1));
  }
}

TEST_CASE("status: context, hint and position survive") {
  Position position{.file = "f:x", .line = 3, .column = 4};
  absl::Status status = WithPosition(Invalid("bad", "do this"), position);
  status = Annotate(status, "spec");
  CHECK(MessageOf(status) == "spec: bad");
  CHECK(HintOf(status) == "do this");
  CHECK(PositionOf(status).file == "f:x");
  CHECK(PositionOf(status).column == 4);
}

TEST_CASE("crc32c: the published check value, at every alignment of the length") {
  CHECK(Crc32c("123456789") == 0xE3069283);
  CHECK(Crc32c("") == 0);
  // RFC 3720, B.4: 32 bytes of zeros, and of ones.
  CHECK(Crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62A8AB43);
}
