// Where results may be written, and that no link leads out of there.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "common/run/result_roots.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

struct SavedResults {
  TempDir temp{"roots"};
  std::string state = temp.path() + "/state";
  std::string shared = temp.path() + "/shared";
  std::string other = temp.path() + "/other";
  ResultRoots roots;

  SavedResults() : roots(Make()) {}
  ResultRoots Make() {
    for (const std::string& path : {state + "/ca", shared, other}) fs::create_directories(path);
    return ResultRoots(
        {.results_root = state + "/results", .others = {shared}, .guarded = {state}});
  }
  absl::StatusCode Try(const std::string& path) { return roots.Resolve(path).status().code(); }
};

TEST_CASE("result roots: what is below a root is allowed, and nothing else") {
  SavedResults saved;
  CHECK(*saved.roots.Resolve(saved.shared) == saved.shared);
  CHECK(*saved.roots.Resolve(saved.shared + "//a/b/") == saved.shared + "/a/b");
  CHECK(*saved.roots.Resolve(saved.state + "/results/a") == saved.state + "/results/a");
  for (const std::string& path :
       {saved.other, saved.shared + "x", std::string("/"), saved.temp.path(), saved.state,
        saved.state + "/ca", saved.state + "/resultsx", std::string("a"), std::string(),
        saved.shared + "/..", saved.shared + "/../other", saved.shared + "/./a"})
    CHECK(saved.Try(path) == absl::StatusCode::kInvalidArgument);
  const absl::Status refused = saved.roots.Resolve(saved.other).status();
  CHECK(MessageOf(refused).ends_with("only below " + saved.state + "/results, " + saved.shared));
}

TEST_CASE("result roots: a link is resolved once, and must lead to where it is allowed") {
  SavedResults saved;
  fs::create_directory_symlink(saved.other, saved.shared + "/out");
  fs::create_directory_symlink(saved.state + "/ca", saved.shared + "/ca");
  fs::create_directory_symlink(saved.shared, saved.other + "/in");
  fs::create_directory_symlink(saved.temp.path() + "/absent", saved.shared + "/dangling");
  CHECK(saved.Try(saved.shared + "/out/a") == absl::StatusCode::kInvalidArgument);
  CHECK(saved.Try(saved.shared + "/ca") == absl::StatusCode::kInvalidArgument);
  CHECK(*saved.roots.Resolve(saved.other + "/in/a") == saved.shared + "/a");
  for (const char* name : {"/out", "/out/a", "/ca", "/dangling", "/dangling/a"})
    CHECK(absl::IsPermissionDenied(saved.roots.Open(saved.shared + name).status()));
  CHECK_FALSE(fs::exists(saved.temp.path() + "/absent"));
}

TEST_CASE("result roots: a head of one's own allows all but what rt keeps for itself") {
  SavedResults saved;
  const ResultRoots own({.results_root = saved.other, .others = {"/"}, .guarded = {saved.state}});
  CHECK(own.Check().ok());
  CHECK(own.Resolve(saved.shared + "/a").ok());
  CHECK(own.Open(saved.shared + "/a/b").ok());
  CHECK_FALSE(own.Resolve(saved.state).ok());
  CHECK_FALSE(own.Resolve(saved.state + "/a").ok());
  CHECK(absl::IsPermissionDenied(own.Open(saved.state + "/a").status()));
  CHECK(absl::IsNotFound(own.Find(saved.shared + "/none").status()));
}

TEST_CASE("result roots: the results root may be a link, and paths may be spelled through it") {
  SavedResults saved;
  const std::string link = saved.temp.path() + "/link";
  fs::create_directory_symlink(saved.shared, link);
  const ResultRoots roots({.results_root = link});
  CHECK(roots.Open(link)->path() == saved.shared);
  CHECK(roots.Open(link + "/e/t")->path() == saved.shared + "/e/t");
  CHECK(*roots.Resolve(link + "/e") == saved.shared + "/e");
}

TEST_CASE("result roots: a root where rt keeps its own files is refused") {
  SavedResults saved;
  for (const std::string& root : {saved.state, saved.state + "/ca"}) {
    const ResultRoots roots(
        {.results_root = saved.other, .others = {root}, .guarded = {saved.state}});
    CHECK(absl::IsFailedPrecondition(roots.Check()));
  }
  CHECK(saved.roots.Check().ok());
}

TEST_CASE("a folder follows no link, opens only regular files, and stays where it was opened") {
  SavedResults saved;
  const Folder folder = *saved.roots.Open(saved.shared + "/e");
  const std::string path = saved.shared + "/e";
  std::ofstream(saved.other + "/victim") << "kept";
  fs::create_symlink(saved.other + "/victim", path + "/link");
  fs::create_symlink(saved.other + "/victim", path + "/new.tmp");
  fs::create_directory_symlink(saved.other, path + "/dir");
  REQUIRE(mkfifo((path + "/pipe").c_str(), 0600) == 0);
  uint64_t length = 0;
  CHECK(absl::IsPermissionDenied(folder.Append("link", "x", length)));
  CHECK(absl::IsPermissionDenied(folder.Replace("new", "x")));
  CHECK(absl::IsPermissionDenied(folder.Enter("dir").status()));
  CHECK_FALSE(folder.Append("pipe", "x", length).ok());
  for (const char* name : {"", ".", "..", "a/b", "../victim"}) {
    CHECK(absl::IsInvalidArgument(folder.Replace(name, "x")));
    CHECK(absl::IsInvalidArgument(folder.Enter(name).status()));
    CHECK(absl::IsInvalidArgument(folder.Remove(name)));
  }
  fs::rename(path, saved.shared + "/moved");
  fs::create_directory_symlink(saved.other, path);
  CHECK(folder.Append("rows", "abc", length).ok());
  CHECK(folder.Append("rows", "d", length).ok());
  length = 2;
  CHECK(folder.Append("rows", "e", length).ok());
  std::ostringstream text;
  text << std::ifstream(saved.shared + "/moved/rows").rdbuf();
  CHECK(text.str() == "abe");
  length = 9;
  CHECK(absl::IsDataLoss(folder.Append("rows", "f", length)));
  CHECK(fs::file_size(saved.other + "/victim") == 4);
  CHECK(std::distance(fs::directory_iterator(saved.other), {}) == 1);
}

}  // namespace
}  // namespace rt
