// What clients may read of an experiment's results directory, and what stays out of reach.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "head/service/result_files.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

Folder Open(const std::string& path) { return *Folder::OpenTrusted(path, false); }

std::vector<std::string> Names(const std::string& root, const std::string& directory) {
  auto files = ListResultFiles(Open(root), directory);
  REQUIRE(files.ok());
  std::vector<std::string> names;
  for (const ResultFile& file : *files) names.push_back(file.path);
  return names;
}

std::string Read(const std::string& root, const std::string& path, uint64_t offset = 0) {
  auto piece = ReadResultFile(Open(root), path, offset, 4);
  return piece.ok() ? piece->data : std::string(absl::StatusCodeToString(piece.status().code()));
}

TEST_CASE("result files: only what the head writes is listed and read") {
  TempDir temp("results");
  const std::string root = temp.path() + "/exp";
  Write(root + "/events.out.tfevents.1.rt", "e");
  Write(root + "/pbt_policy_1_3.txt", "[]");
  Write(root + "/pbt_policy_1_3.txt.tmp", "[");
  Write(root + "/t0/result.json", "0123456789");
  Write(root + "/t0/params.json", "{}");
  Write(root + "/t0/params.json.tmp", "{");
  Write(root + "/t0/key.pem", "secret");
  Write(root + "/t0/checkpoint_000000/result.json/weights", "w");
  Write(root + "/.rt-state/ca/result.json", "secret");
  CHECK(Names(root, "") ==
        std::vector<std::string>{"events.out.tfevents.1.rt", "pbt_policy_1_3.txt"});
  CHECK(Names(root, "t0") == std::vector<std::string>{"t0/params.json", "t0/result.json"});
  CHECK(Names(root, "none").empty());
  CHECK(Read(root, "t0/result.json") == "0123");
  CHECK(Read(root, "t0/result.json", 8) == "89");
  CHECK(Read(root, "t0/result.json", 10).empty());
  for (const char* path : {"t0/key.pem", "t0", "", ".", "t0/params.json.tmp", "none/result.json"})
    CHECK(Read(root, path) == "NOT_FOUND");
}

TEST_CASE("result files: nothing outside of the directory can be reached") {
  TempDir temp("results");
  const std::string root = temp.path() + "/exp";
  Write(temp.path() + "/outside/result.json", "secret");
  Write(root + "/t0/params.json", "{}");
  fs::create_directory_symlink(temp.path() + "/outside", root + "/linked");
  fs::create_symlink(temp.path() + "/outside/result.json", root + "/t0/result.json");
  REQUIRE(mkfifo((root + "/t0/error.txt").c_str(), 0600) == 0);
  CHECK(Names(root, "linked").empty());
  CHECK(Names(root, "t0") == std::vector<std::string>{"t0/params.json"});
  for (const std::string path :
       {"../outside/result.json", "t0/../../outside/result.json", "linked/result.json",
        "t0/result.json", "t0/error.txt", "/etc/result.json", "t0//params.json"})
    CHECK(Read(root, path) == "NOT_FOUND");
  CHECK_FALSE(ListResultFiles(Open(root), "../outside").ok());
}

}  // namespace
}  // namespace rt
