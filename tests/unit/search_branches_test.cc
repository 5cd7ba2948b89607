// The branches of a space with conditions, and TPE that chooses among them.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "common/base/rng.h"
#include "common/search/branches.h"
#include "common/search/tpe.h"
#include "tests/unit/tree_course.h"

using namespace rt;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A valid configuration has what its other parameters ask for, and nothing else.
void CheckTree(const Json& params) {
  INFO(params.Dump());
  const std::string kind = params.GetString("kind");
  const Json *flat = params.Find("flat"), *deep = params.Find("deep");
  CHECK((flat != nullptr) == (kind == "flat"));
  CHECK((deep != nullptr) == (kind == "deep"));
  if (flat != nullptr) CHECK(flat->GetInt("n") < 3);
  const bool is_rare = deep != nullptr && deep->GetDouble("x") >= 0.97;
  CHECK((params.Find("rare") != nullptr) == is_rare);
}

}  // namespace

TEST_CASE("branches: trials with the same parameters are in one branch, which has its best rank") {
  const Encoding encoding = SearchedSpace(kTree);
  const auto point_of = [&](const char* text) { return *encoding.Encode(*Json::Parse(text)); };
  const std::vector<FinishedTrial> trials = {
      {0, point_of(R"({"kind":"none"})"), 7},
      {1, point_of(R"({"kind":"flat","flat":{"n":1}})"), 5},
      {2, point_of(R"({"kind":"flat","flat":{"n":2}})"), 9},
      {3, point_of(R"({"kind":"deep","deep":{"x":0.5,"y":0.1}})"), kNaN}};
  std::vector<const FinishedTrial*> finished;
  for (const FinishedTrial& trial : trials) finished.push_back(&trial);
  const std::vector<FlyingTrial> in_flight = {
      {4, point_of(R"({"kind":"flat","flat":{"n":0}})")},
      {5, point_of(R"({"kind":"deep","deep":{"x":0.98,"y":0.1},"rare":"u"})")}};
  std::map<size_t, std::vector<size_t>> found;  // By the number of axes: rank and trials.
  for (const Branch& branch : BranchesOf(encoding, finished, in_flight))
    found[static_cast<size_t>(std::count(branch.axes.begin(), branch.axes.end(), true))] = {
        branch.best_rank, branch.finished.size(), branch.in_flight};
  // kind alone; with n of flat, twice; with x and y; with rare besides.
  CHECK(found.at(1) == std::vector<size_t>{2, 1, 0});
  CHECK(found.at(2) == std::vector<size_t>{1, 2, 1});
  CHECK(found.at(3) == std::vector<size_t>{4, 1, 0});
  CHECK(found.at(4) == std::vector<size_t>{4, 0, 1});
}

TEST_CASE("branches: a branch gets trials by the rank of its best one") {
  std::vector<Branch> branches(3);
  const size_t ranks[] = {1, 8, 64};
  for (size_t i = 0; i < 3; ++i) branches[i].best_rank = ranks[i];
  for (Branch& each : branches) each.in_flight = 1;
  for (int trial = 0; trial < 700; ++trial) {
    const Branch* next = InOrderOfChoice(branches, 3).front();
    ++branches[static_cast<size_t>(next - branches.data())].in_flight;
  }
  CHECK(std::abs(static_cast<int>(branches[0].in_flight) - 400) <= 8);  // 4 : 2 : 1.
  CHECK(std::abs(static_cast<int>(branches[1].in_flight) - 200) <= 8);
}

TEST_CASE("branches: tpe proposes valid configurations whatever the branches' values are") {
  const TreeLoss losses[] = {
      [](const Json& c) { return c.GetString("kind") == "deep" ? kNaN : 1.0; },  // A branch fails.
      [](const Json& c) { return c.GetString("kind") == "none" ? 0.0 : 1.0; },   // Equal values.
      [](const Json& c) { return c.GetString("kind") == "flat" ? HUGE_VAL : 2.0; },
      [](const Json& c) {
        const Json* deep = c.Find("deep");
        return deep == nullptr ? 9.0 : -deep->GetDouble("x");
      }};
  for (const TreeLoss loss : losses) {
    const std::vector<Json> asked = SearchTree(kTree, 80, Branching(), loss);
    std::set<std::string> whole;  // "none" and the three of flat can be tried once.
    int repeated = 0;
    for (const Json& params : asked) {
      CheckTree(params);
      const bool is_new = whole.insert(params.Dump()).second;
      if (params.GetString("kind") != "deep" && !is_new) ++repeated;
    }
    CHECK(repeated == 0);
  }
}

TEST_CASE("branches: an answer depends neither on the order of the trials nor on their scale") {
  const Encoding encoding = SearchedSpace(kTree);
  Observations seen;
  for (uint64_t number = 0; number < 60; ++number) {
    Rng rng(11, number);
    Point point(encoding.axes().size());
    for (double& each : point) each = rng.Uniform();
    point = encoding.Snap(point);
    const double value = point[0] + 0.1 * point[1];
    if (number < 52) seen.finished.push_back({number, point, value});
    else seen.in_flight.push_back({number, point});
  }
  Observations turned = seen;
  std::reverse(turned.finished.begin(), turned.finished.end());
  std::reverse(turned.in_flight.begin(), turned.in_flight.end());
  for (FinishedTrial& trial : turned.finished) trial.value = std::exp(3 * trial.value);
  for (uint64_t number = 60; number < 90; ++number)
    CHECK(SuggestTpe(encoding, turned, 1, number, Branching())->point ==
          SuggestTpe(encoding, seen, 1, number, Branching())->point);
}

TEST_CASE("branches: with more branches than trials can fill, all trials are compared") {
  std::string space = R"({"x":{"uniform":[0,1]})";
  for (int i = 0; i < 10; ++i) {
    const std::string flag = "f" + std::to_string(i);
    space += ",\"" + flag + R"(":{"choice":[true,false]},")" + flag + R"(_x":{"uniform":[0,1],)" +
             R"("if":{")" + flag + R"(":true}})";
  }
  const TreeLoss loss = [](const Json& c) { return c.GetDouble("x"); };
  const std::string text = space + "}";
  CHECK(SearchTree(text.c_str(), 60, Branching(), loss) == SearchTree(text.c_str(), 60, {}, loss));
}
