#include "head/service/results_dir.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/temp_dir.h"

namespace rt {
namespace {

TEST_CASE("a directory of results gets the next suffix, however many have been taken") {
  TempDir root{"results"};
  const ResultRoots roots({.results_root = root.path()});
  ExperimentSpec spec;
  spec.name = "e";
  const auto reserve = [&] {
    const absl::StatusOr<std::string> made = ReserveResultsDir(spec, roots);
    REQUIRE(made.ok());
    CHECK(std::filesystem::is_directory(*made));
    return std::filesystem::path(*made).filename().string();
  };
  CHECK(reserve() == "e");
  for (int suffix = 2; suffix <= 70; ++suffix) CHECK(reserve() == "e-" + std::to_string(suffix));

  std::ofstream(root.path() + "/e-71") << "a file of somebody else";
  std::filesystem::create_directory_symlink(root.path(), root.path() + "/e-72");
  CHECK(reserve() == "e-73");
  CHECK(reserve() == "e-74");

  ReleaseResultsDir(root.path() + "/e-74", roots);
  CHECK(reserve() == "e-74");
}

}  // namespace
}  // namespace rt
