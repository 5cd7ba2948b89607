#include <catch2/catch.hpp>

#include <sys/stat.h>

#include "common/yaml/yaml_json.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {
std::string Dump(const char* text) {
  auto document = ParseYaml(text, "f.yaml");
  return document.ok() ? document->value.Dump() : "error: " + MessageOf(document.status());
}
}  // namespace

TEST_CASE("yaml: scalars follow YAML 1.2, and what is quoted stays a text") {
  CHECK(Dump("{a: 1, b: 1e-4, c: true, d: yes, e: null, f: '1', g: \"true\", h: 1.2.3, i: ~}") ==
        R"({"a":1,"b":1e-04,"c":true,"d":"yes","e":null,"f":"1","g":"true","h":"1.2.3","i":null})");
  CHECK(Dump("[0x10, 0o10, -3, +4, .5, -.inf, 1_000, 010]") ==
        R"([16,8,-3,4,0.5,"-Infinity","1_000",10])");
  CHECK(Dump("a:\nb:\n  - 1\n  - x\n") == R"({"a":null,"b":[1,"x"]})");
}

TEST_CASE("yaml: a duplicate key is an error at its place") {
  auto document = ParseYaml("a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml");
  REQUIRE(!document.ok());
  CHECK(MessageOf(document.status()) == "duplicate key 'c'");
  CHECK(PositionOf(document.status()).line == 4);
  CHECK(PositionOf(document.status()).column == 3);
}

TEST_CASE("yaml: a bracket that is not closed is an error where it was opened") {
  auto place = [](const char* text) {
    const absl::Status status = ParseYaml(text, "f.yaml").status();
    return MessageOf(status) + " " + std::to_string(PositionOf(status).line) + ":" +
           std::to_string(PositionOf(status).column);
  };
  CHECK(place("n: 1\nx: [1, 2\ny: 3\n") == "a [ is not closed 2:4");
  CHECK(place("é: don't  # [\nx: {a: [1], b: '}'\n") == "a { is not closed 2:4");
  CHECK(place("x: [1, \"\\\"]\", [2]\n") == "a [ is not closed 1:4");
}

TEST_CASE("yaml: a quote that is not closed is an error where it was opened") {
  auto place = [](const char* text) {
    const absl::Status status = ParseYaml(text, "f.yaml").status();
    return MessageOf(status) + " " + std::to_string(PositionOf(status).line) + ":" +
           std::to_string(PositionOf(status).column);
  };
  CHECK(place("a: \"abc\n") == "a \" is not closed 1:4");
  CHECK(place("a: \"abc") == "a \" is not closed 1:4");
  CHECK(place("a: 1\r\nüü: 'abc\r\nb: 2\r\n") == "a ' is not closed 2:5");
  CHECK(place("\xef\xbb\xbf"
              "a: &x 'it''s\n") == "a ' is not closed 1:7");
  CHECK(place("a:\n  - \"x\\\"\n") == "a \" is not closed 2:5");
  CHECK(place("'abc\n") == "a ' is not closed 1:1");
  CHECK(place("x: [1, \"a\n") == "a \" is not closed 1:8");
  CHECK(Dump("a: &x'y \"it's\"\nb: ! c's\n") == R"({"a":"it's","b":"c's"})");
  CHECK(Dump("a: 'it''s'\n") == R"({"a":"it's"})");
}

TEST_CASE("yaml: an error quotes a short part of what it is about") {
  const std::string key(300, 'k');
  CHECK(Dump((key + ": 1\n" + key + ": 2\n").c_str()) ==
        "error: duplicate key '" + std::string(60, 'k') + "...'");
  CHECK(Dump(("a: !" + key + " 1\n").c_str()).size() < 120);
}

TEST_CASE("yaml: places are those of the scalar, or of the key of a map") {
  auto document = ParseYaml("a:\n  b: [1, x]\n  c: 5\n", "f.yaml");
  REQUIRE(document.ok());
  CHECK(document->places["a/c"].value_line == 3);
  CHECK(document->places["a/c"].value_column == 6);
  CHECK(document->places["a/b/1"].value_column == 10);
  Position nearest = PositionOf(document->At(Invalid("x"), "a/c/d/e"));
  CHECK(nearest.line == 3);
}

TEST_CASE("yaml: bytes that are no UTF-8 are named with their place") {
  auto at = [](std::string_view text) {
    auto document = ParseYaml(text, "f.yaml");
    REQUIRE(!document.ok());
    Position place = PositionOf(document.status());
    return place.file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) +
           ": " + MessageOf(document.status());
  };
  CHECK(at("a: 1\nb: \u00e9\xe9x\n") == "f.yaml:2:5: not a text in UTF-8: byte 0xe9");
  CHECK(at(std::string_view("a: \0", 4)) == "f.yaml:1:4: not a text in UTF-8: byte 0x00");
  CHECK(at("a: \xef\xbf") == "f.yaml:1:5: not a text in UTF-8: byte 0xbf");
}

TEST_CASE("yaml: tags, several documents, depth and bombs are refused") {
  CHECK(Dump("a: !!python/object:os.system x").starts_with("error: tags"));
  CHECK(Dump("a: 1\n---\nb: 2\n").find("more than one document") != std::string::npos);
  CHECK(Dump((std::string(100, '[') + std::string(100, ']')).c_str()).find("deep") !=
        std::string::npos);
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 9; ++k) bomb += "," + last;
    bomb += "]\n";
  }
  CHECK(Dump(bomb.c_str()).find("too many values") != std::string::npos);
  CHECK(!ParseYaml(std::string((1 << 20) + 1, ' '), "f").ok());
  CHECK(!ParseYaml("a: [1", "f").ok());
  CHECK(Dump("a: &x 5\nb: *x\n") == R"({"a":5,"b":5})");
}

TEST_CASE("yaml: a pipe without a writer is refused at once, and so is a directory") {
  TempDir temp("yaml");
  REQUIRE(::mkfifo(temp.File("pipe").c_str(), 0600) == 0);
  for (const std::string& path : {temp.File("pipe"), temp.path()}) {
    const absl::Status status = ParseYamlFile(path).status();
    CHECK(MessageOf(status) == path + ": not a regular file");
    CHECK(!HintOf(status).empty());
  }
}
