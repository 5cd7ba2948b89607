#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/base/rng.h"
#include "common/search/basic.h"
#include "common/search/encoding.h"

using namespace rt;

namespace {
Space SpaceOf(const std::string& text) {
  auto space = ParseSpace(*Json::Parse(text), "space");
  INFO(space.status().ToString());
  REQUIRE(space.ok());
  return *space;
}

Encoding EncodingOf(const std::string& text) {
  auto encoding = Encoding::Of(SpaceOf(text));
  INFO(encoding.status().ToString());
  REQUIRE(encoding.ok());
  return *encoding;
}

// Every value that the only variable "x" takes on a fine grid of coordinates.
std::vector<std::string> ValuesOf(const std::string& domain) {
  const Encoding encoding = EncodingOf(R"({"x":)" + domain + "}");
  std::vector<std::string> values;
  for (int i = 0; i <= 10'000; ++i) {
    std::string value = encoding.Decode({i / 10'000.0}).Find("x")->Dump();
    if (values.empty() || values.back() != value) values.push_back(std::move(value));
  }
  return values;
}
using Texts = std::vector<std::string>;

const char* const kDomains[] = {
    R"({"uniform":[-1,2]})",         R"({"quniform":[0,1,0.1]})",
    R"({"loguniform":[1e-4,0.1]})",  R"({"qloguniform":[0.5,8,0.5]})",
    R"({"randn":[10,2]})",           R"({"qrandn":[1,0.5,0.25]})",
    R"({"randint":[-3,10]})",        R"({"qrandint":[-10,10,5]})",
    R"({"lograndint":[1,1000]})",    R"({"qlograndint":[7,100,5]})",
    R"({"choice":["a","b",true]})",  R"({"choice":[64,16,32]})",
    R"({"uniform":[-1e308,1e308]})", R"({"randint":[-9000000000000000,9000000000000000]})",
};
}  // namespace

TEST_CASE("encoding: steps decode to every value of the domain, with its type") {
  CHECK(ValuesOf(R"({"randint":[3,6]})") == Texts{"3", "4", "5"});
  CHECK(ValuesOf(R"({"quniform":[0,0.3,0.1]})") == Texts{"0.0", "0.1", "0.2", "0.3"});
  CHECK(ValuesOf(R"({"qrandint":[-10,10,5]})") == Texts{"-10", "-5", "0", "5", "10"});
  CHECK(ValuesOf(R"({"qlograndint":[7,20,5]})") == Texts{"10", "15", "20"});
  CHECK(ValuesOf(R"({"qloguniform":[0.5,1.5,0.5]})") == Texts{"0.5", "1.0", "1.5"});
  CHECK(ValuesOf(R"({"lograndint":[1,5]})") == Texts{"1", "2", "3", "4"});
  CHECK(ValuesOf(R"({"qrandn":[0,0.1,0.5]})") == Texts{"-0.5", "0.0", "0.5"});
}

TEST_CASE("encoding: a choice of numbers is ordered by value, another keeps its order") {
  CHECK(ValuesOf(R"({"choice":[64,16,32]})") == Texts{"16", "32", "64"});
  CHECK(EncodingOf(R"({"x":{"choice":[64,16,32]}})").axes()[0].kind() == Axis::Kind::kSteps);
  CHECK(ValuesOf(R"({"choice":["b","a",null]})") == Texts{"\"b\"", "\"a\"", "null"});
  const auto kind = [](const char* choice) {
    return EncodingOf(std::string(R"({"x":{"choice":)") + choice + "}}").axes()[0].kind();
  };
  CHECK(kind(R"(["b","a"])") == Axis::Kind::kCategories);
  CHECK(kind("[1,2]") == Axis::Kind::kCategories);
  CHECK(kind("[1,2,2]") == Axis::Kind::kCategories);
  CHECK(kind("[1,2,true]") == Axis::Kind::kCategories);
}

TEST_CASE("encoding: what random search draws comes back from its point") {
  for (const char* domain : kDomains) {
    INFO(domain);
    const std::string text = std::string(R"({"x":)") + domain + "}";
    const Encoding encoding = EncodingOf(text);
    const Variable variable = SpaceOf(text).variables[0];
    const bool is_huge = std::string(domain).find("9000000000000000") != std::string::npos;
    for (uint64_t number = 0; number < 500; ++number) {
      Rng rng(1, number);
      const Json value = Draw(variable.domain, rng);
      const std::optional<Point> point = encoding.Encode(Json::MakeObject({{"x", value}}));
      REQUIRE(point.has_value());
      REQUIRE((point->at(0) >= 0 && point->at(0) <= 1));
      const Json back = *encoding.Decode(*point).Find("x");
      INFO(value.Dump() << " came back as " << back.Dump());
      REQUIRE(back.is_int() == value.is_int());
      if (encoding.IsDiscrete() && !is_huge) {
        REQUIRE(back == value);
        REQUIRE(encoding.Snap(*point) == *point);
      } else if (value.is_number()) {
        const double scale = std::max(std::abs(value.AsDouble()), std::abs(variable.domain.upper));
        REQUIRE(std::abs(back.AsDouble() - value.AsDouble()) <= 1e-12 * scale);
      }
    }
  }
}

TEST_CASE("encoding: every point decodes to a value within the bounds") {
  for (const char* domain : kDomains) {
    INFO(domain);
    const Encoding encoding = EncodingOf(std::string(R"({"x":)") + domain + "}");
    const Domain& of = encoding.axes()[0].variable().domain;
    const bool is_bounded = of.kind != Domain::Kind::kNormal && of.kind != Domain::Kind::kQNormal &&
                            of.kind != Domain::Kind::kChoice;
    for (double at : {0.0, 1e-300, 1e-17, 0.3, 0.5, 1 - 0x1p-53, 1.0, -0.5, 1.5}) {
      const Json value = *encoding.Decode({at}).Find("x");
      INFO(at << " decodes to " << value.Dump());
      if (!value.is_number()) continue;
      REQUIRE(std::isfinite(value.AsDouble()));
      if (!is_bounded) continue;
      REQUIRE(value.AsDouble() >= of.lower);
      REQUIRE(value.AsDouble() <= of.upper);
      const bool is_open = of.kind == Domain::Kind::kUniform || of.kind == Domain::Kind::kRandInt ||
                           of.kind == Domain::Kind::kLogRandInt;
      if (is_open) REQUIRE(value.AsDouble() < of.upper);
    }
  }
}

TEST_CASE("encoding: coordinates of random draws are uniform") {
  for (const char* domain : {R"({"loguniform":[1e-4,0.1]})", R"({"randn":[10,2]})",
                             R"({"uniform":[-1,2]})", R"({"lograndint":[1,100000]})"}) {
    INFO(domain);
    const std::string text = std::string(R"({"x":)") + domain + "}";
    const Encoding encoding = EncodingOf(text);
    const Variable variable = SpaceOf(text).variables[0];
    std::vector<int> tenths(10);
    for (uint64_t number = 0; number < 4000; ++number) {
      Rng rng(2, number);
      const Json params = Json::MakeObject({{"x", Draw(variable.domain, rng)}});
      ++tenths[std::min<size_t>(9, static_cast<size_t>(10 * encoding.Encode(params)->at(0)))];
    }
    for (int count : tenths) CHECK(std::abs(count - 400) < 120);
  }
}

TEST_CASE("encoding: a variable with one value is a constant, and no axis") {
  const Encoding encoding = EncodingOf(
      R"({"a":{"choice":["only"]},"b":{"randint":[4,5]},"c":{"randn":[2,0]},
          "d":{"quniform":[0.5,0.5,0.5]},"e":{"qrandn":[0.6,0,0.5]},"n":{"x":{"uniform":[0,1]}}})");
  REQUIRE(encoding.axes().size() == 1);
  CHECK(encoding.Decode({0.25}).Dump() ==
        R"({"a":"only","b":4,"c":2.0,"d":0.5,"e":0.5,"n":{"x":0.25}})");
  const Encoding nothing = EncodingOf(R"({"lr":0.1})");
  CHECK(nothing.axes().empty());
  CHECK(nothing.Configurations() == 1);
  CHECK(nothing.Decode({}).Dump() == R"({"lr":0.1})");
}

TEST_CASE("encoding: configurations that are no point of the space are refused or clamped") {
  const Encoding encoding =
      EncodingOf(R"({"lr":{"loguniform":[0.001,0.1]},"net":[{"choice":["a","b"]}]})");
  const auto encode = [&](const char* params) { return encoding.Encode(*Json::Parse(params)); };
  CHECK(encode(R"({"lr":0.01,"net":["b"],"more":1})").has_value());
  CHECK(encode(R"({"lr":5,"net":["b"]})")->at(0) == 1);
  CHECK(encode(R"({"lr":-5,"net":["b"]})")->at(0) == 0);
  CHECK(!encode(R"({"lr":0.01,"net":["c"]})"));
  CHECK(!encode(R"({"lr":0.01,"net":[]})"));
  CHECK(!encode(R"({"lr":0.01,"net":"b"})"));
  CHECK(!encode(R"({"lr":"fast","net":["b"]})"));
  CHECK(!encode(R"({"lr":"NaN","net":["b"]})"));
  CHECK(!encode(R"({"net":["b"]})"));
}

TEST_CASE("encoding: a choice is the same number whether it is written as 1 or as 1.0") {
  const Encoding encoding = EncodingOf(R"({"x":{"choice":[1,2,3]}})");
  const auto whole = encoding.Encode(*Json::Parse(R"({"x":2})"));
  const auto real = encoding.Encode(*Json::Parse(R"({"x":2.0})"));
  REQUIRE(real.has_value());
  CHECK(*whole == *real);
}

TEST_CASE("encoding: a grid is refused with the variable's path") {
  const auto encoding = Encoding::Of(SpaceOf(R"({"net":{"width":{"grid":[1,2]}}})"));
  REQUIRE(!encoding.ok());
  CHECK(std::string(encoding.status().message()).find("space/net/width") != std::string::npos);
}

TEST_CASE("encoding: the number of configurations, exact or saturated") {
  CHECK(EncodingOf(R"({"a":{"randint":[0,7]},"b":{"choice":["x","y"]}})").Configurations() == 14);
  CHECK(EncodingOf(R"({"a":{"uniform":[0,1]}})").Configurations() == UINT64_MAX);
  const char* const huge = R"({"randint":[0,4000000000000000]})";
  const std::string text = std::string(R"({"a":)") + huge + R"(,"b":)" + huge + "}";
  CHECK(EncodingOf(text).Configurations() == UINT64_MAX);
}
