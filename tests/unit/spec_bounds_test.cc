// What a request may ask for at most.
#include <catch2/catch.hpp>
#include <ctime>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

// `count` resources called n0, n1, …
Json Custom(size_t count, int amount = 1) {
  Json names = Json::MakeObject();
  for (size_t i = 0; i < count; ++i)
    names.object().emplace_back("n" + std::to_string(i), Json(amount));
  return names;
}
Json Asking(size_t names, size_t ranks) {
  return Json::MakeObject({{"ranks", ranks}, {"custom", Custom(names)}});
}
std::string ErrorOf(const Json& request) {
  const absl::Status status = ParseResourceRequest(request, "resources").status();
  return status.ok() ? "" : MessageOf(status);
}

}  // namespace

TEST_CASE("spec: a request names a bounded number of custom resources") {
  CHECK(ErrorOf(Asking(32, 128)).empty());
  CHECK(ErrorOf(Asking(4, 1'024)).empty());
  CHECK(ErrorOf(Asking(33, 1)) == "resources: names 33 custom resources, at most 32 are allowed");
  CHECK(ErrorOf(Asking(5, 1'024)) ==
        "resources: the bundles name 5120 custom resources together, at most 4096 are allowed");
  Json bundles = Json::MakeArray();
  for (int i = 0; i < 129; ++i) bundles.Append(Custom(32));
  CHECK(ErrorOf(Json::MakeObject({{"bundles", bundles}})).find("together, at most 4096") !=
        std::string::npos);
  bundles.array().resize(1);
  bundles.Append(Custom(33));
  CHECK(ErrorOf(Json::MakeObject({{"bundles", bundles}})) ==
        "resources/bundles/1: names 33 custom resources, at most 32 are allowed");
}

TEST_CASE("journalled spec: a request of more custom resources than a release allows is kept") {
  const auto reading = ReadJournalledResources({.text = Asking(100, 1'024).Dump()});
  REQUIRE(reading.spec.bundles.size() == 1'024);
  CHECK(reading.spec.ranks == 1'024);
  CHECK(reading.spec.bundles.back().custom.size() == 100);
  REQUIRE(reading.warnings.size() == 1);
  CHECK(reading.warnings[0].ends_with("; it stays as it was written"));
  const std::string experiment =
      R"({"experiment":"e","command":["x"],"resources":)" + Asking(100, 2).Dump() + "}";
  const auto whole = ReadJournalledExperiment({.text = experiment});
  REQUIRE(whole.spec.resources.bundles.size() == 2);
  CHECK(whole.spec.resources.one().custom.size() == 100);
}

TEST_CASE("spec: the time for a request is linear in what it has") {
  const Json many = Custom(100'000, 0);
  Resources offered;
  for (const auto& [name, amount] : many.object()) offered.custom[name] = kUnit;
  const std::clock_t before = std::clock();  // Of this process alone: others may be busy.
  CHECK(ErrorOf(many).empty());
  CHECK(ToJson(offered).Find("custom")->object().size() == 100'000);
  CHECK((std::clock() - before) / CLOCKS_PER_SEC < 3);  // Quadratic: more than ten seconds.
}
