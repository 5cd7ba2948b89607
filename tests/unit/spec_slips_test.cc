#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/slips.h"

using namespace rt;

namespace {

absl::Status Written(const std::string& space, const std::string& more = "") {
  return CheckWritten(*Json::Parse(R"({"experiment":"e","space":)" + space + more + "}"));
}
// The path and the hint of the error; "" when there is none.
std::string Slip(const std::string& space, const std::string& more = "") {
  absl::Status status = Written(space, more);
  return status.ok() ? "" : SpecPathOf(status) + " " + HintOf(status);
}
std::vector<std::string> Notes(const std::string& space) {
  std::vector<std::string> texts;
  for (const SpecNote& note : NotesOf(*Json::Parse(R"({"space":)" + space + "}")))
    texts.push_back(note.path + ": " + note.text);
  return texts;
}

}  // namespace

TEST_CASE("slips: trials with several ranks are not frozen, and a note says so") {
  const auto notes = [](const std::string& more) {
    return NotesOf(*Json::Parse(R"({"suspend":true)" + more + "}"));
  };
  CHECK(notes("").empty());
  CHECK(notes(R"(,"resources":{"gpu":1,"ranks":1})").empty());
  REQUIRE(notes(R"(,"resources":{"ranks":2})").size() == 1);
  CHECK(notes(R"(,"resources":{"ranks":2})")[0].path == "suspend");
  CHECK(notes(R"(,"resources":{"ranks":[1,4]})").size() == 1);
  CHECK(notes(R"(,"resources":{"bundles":[{"cpu":1},{"cpu":2}]})").size() == 1);
  CHECK(NotesOf(*Json::Parse(R"({"resources":{"ranks":2}})")).empty());
}

TEST_CASE("slips: a misspelt distribution is an error with a suggestion") {
  CHECK(Slip(R"({"lr":{"loguniorm":[1e-4,0.1]}})")
            .starts_with("space/lr/loguniorm did you mean 'loguniform'?"));
  CHECK(Slip(R"({"lr":{"grid_searh":[1,2]}})")
            .starts_with("space/lr/grid_searh did you mean 'grid_search'?"));
  CHECK(Slip(R"({"a":{"LogUniform":[1,2]}})").starts_with("space/a/LogUniform did you mean 'log"));
  CHECK(Slip(R"({"a":{"tune.log_uniform":[1,2]}})").find("'loguniform'") != std::string::npos);
  CHECK(Slip(R"({"a":{"choices":[1,2]}})").find("'choice'") != std::string::npos);
  CHECK(Slip(R"({"a":{"constants":[1,2]}})").find("'constant'") != std::string::npos);
  CHECK(Slip(R"({"net":{"opt":[{"b":1,"c":{"unform":[0,1]}}]}})").find("'uniform'") !=
        std::string::npos);
}

TEST_CASE("slips: a condition is no constant, and what is beside it is looked at") {
  CHECK(Slip(R"({"a":{"unifrom":[0,1],"if":{"k":["x","y"]}}})").find("'uniform'") !=
        std::string::npos);
  CHECK(Slip(R"({"a":{"uniform":[0,1],"if":{"k":["x","y"]}}})") == "");
  CHECK(Notes(R"({"a":{"uniform":[0,1],"if":{"k":["x","y"]}}})").empty());
  CHECK(Notes(R"({"g":{"if":{"k":["x","y"]},"l":[1,2]}})").size() == 1);
}

TEST_CASE("slips: a distribution stands alone in its map, beside a condition at most") {
  CHECK(Slip(R"({"x":{"uniform":[0,1],"choice":[1]}})") == "space/x give it one of them");
  CHECK(MessageOf(Written(R"({"x":{"uniform":[0,1],"choice":[1]}})")) ==
        "space/x: has several distributions: uniform, choice");
  CHECK(Slip(R"({"x":{"uniform":[0,1],"if":"y"}})") ==
        "space/x/if for example if: {optimizer: adam}");
  // Parameters with these names are constants of a map.
  CHECK(Slip(R"({"env":{"grid":[8,8],"agents":2}})") == "");
  CHECK(Slip(R"({"env":{"grid":[8,8],"choice":2}})") == "");
  CHECK(Notes(R"({"x":{"uniform":[0,1],"log":true}})") ==
        std::vector<std::string>{
            "space/x/uniform: x/uniform is the same list in every trial, because 'uniform' is not "
            "the only key of its map; a distribution stands alone: {uniform: [0,1]}"});
}

TEST_CASE("slips: several metrics have modes") {
  CHECK(Slip("{}", R"(,"metric":["a","b"],"mode":["min","max"])") == "");
  CHECK(Slip("{}", R"(,"mode":["min","max"])").starts_with("mode "));
}

TEST_CASE("slips: maps that are meant as constants stay constants") {
  for (const char* space :
       {R"({"a":{"choices":3}})", R"({"a":{"constant":{"choices":[1,2]}}})", R"({"unifrom":[0,1]})",
        R"({"a":{"widths":[1,2]}})", R"({"a":{"grid_points":[1,2]}})", R"({"a":{"units":[1,2]}})",
        R"({"a":{"uniform":[0,1]},"b":{"choice":[{"unform":[0,1]}]}})", R"({"a":{}})", R"([1])"})
    CHECK(Slip(space) == "");
}

TEST_CASE("slips: a call is written as a map") {
  CHECK(Slip(R"x({"lr":"loguniform(1e-4, 1e-1)"})x") ==
        "space/lr write {loguniform: [1e-4, 1e-1]}");
  CHECK(Slip(R"x({"lr":"tune.choice([1, 2])"})x") == "space/lr write {choice: [1, 2]}");
  CHECK(Slip(R"x({"lr":"mean(x)"})x") == "");
  CHECK(Slip(R"x({"lr":{"constant":"uniform(0, 1)"}})x") == "");
}

TEST_CASE("slips: a mode needs a metric") {
  CHECK(Slip("{}", R"(,"mode":"min")") == "mode add metric: NAME, or leave mode out");
  CHECK(Slip("{}", R"(,"mode":"min","metric":"loss")") == "");
}

TEST_CASE("slips: a list that is one constant is named, with what to write instead") {
  CHECK(Notes(R"({"lr":[1,2,3],"one":[1],"c":{"constant":[1,2]},"g":{"grid":[1,2]}})") ==
        std::vector<std::string>{
            "space/lr: lr is the same list in every trial; to draw one of its values write "
            "{choice: [1,2,3]}, to try each {grid: [1,2,3]}"});
  CHECK(Notes(R"({"net":{"choices":3}})") ==
        std::vector<std::string>{
            "space/net: net is the same map in every trial: 'choices' is no distribution"});
}

TEST_CASE("slips: a resource that resembles a kind of rt's own") {
  CHECK(ResourceHint("cpus") == "did you mean 'cpu'?");
  CHECK(ResourceHint("GPUS") == "did you mean 'gpu'?");
  CHECK(ResourceHint("rank") == "did you mean 'ranks'?");
  CHECK(ResourceHint("license") == "");
}
