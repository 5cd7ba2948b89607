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

struct Site {
  TempDir temp{"roots"};
  std::string state = temp.path() + "/state";
  std::string shared = temp.path() + "/shared";
  std::string other = temp.path() + "/other";
  ResultRoots roots;

  Site() : roots(Make()) {}
  ResultRoots Make() {
    for (const std::string& path : {state + "/ca", shared, other}) fs::create_directories(path);
    return ResultRoots(
        {.results_root = state + "/results", .others = {shared}, .guarded = {state}});
  }
  absl::StatusCode Try(const std::string& path) { return roots.Resolve(path).status().code(); }
};

TEST_CASE("result roots: what is below a root is allowed, and nothing else") {
  Site site;
  CHECK(*site.roots.Resolve(site.shared) == site.shared);
  CHECK(*site.roots.Resolve(site.shared + "//a/b/") == site.shared + "/a/b");
  CHECK(*site.roots.Resolve(site.state + "/results/a") == site.state + "/results/a");
  for (const std::string& path :
       {site.other, site.shared + "x", std::string("/"), site.temp.path(), site.state,
        site.state + "/ca", site.state + "/resultsx", std::string("a"), std::string(),
        site.shared + "/..", site.shared + "/../other", site.shared + "/./a"})
    CHECK(site.Try(path) == absl::StatusCode::kInvalidArgument);
  const absl::Status refused = site.roots.Resolve(site.other).status();
  CHECK(MessageOf(refused).ends_with("only below " + site.state + "/results, " + site.shared));
}

TEST_CASE("result roots: a link is resolved once, and must lead to where it is allowed") {
  Site site;
  fs::create_directory_symlink(site.other, site.shared + "/out");
  fs::create_directory_symlink(site.state + "/ca", site.shared + "/ca");
  fs::create_directory_symlink(site.shared, site.other + "/in");
  fs::create_directory_symlink(site.temp.path() + "/absent", site.shared + "/dangling");
  CHECK(site.Try(site.shared + "/out/a") == absl::StatusCode::kInvalidArgument);
  CHECK(site.Try(site.shared + "/ca") == absl::StatusCode::kInvalidArgument);
  CHECK(*site.roots.Resolve(site.other + "/in/a") == site.shared + "/a");
  for (const char* name : {"/out", "/out/a", "/ca", "/dangling", "/dangling/a"})
    CHECK(absl::IsPermissionDenied(site.roots.Open(site.shared + name).status()));
  CHECK_FALSE(fs::exists(site.temp.path() + "/absent"));
}

TEST_CASE("result roots: a head of one's own allows all but what rt keeps for itself") {
  Site site;
  const ResultRoots own(
      {.results_root = site.other, .others = {"/"}, .guarded = {site.state}});
  CHECK(own.Check().ok());
  CHECK(own.Resolve(site.shared + "/a").ok());
  CHECK(own.Open(site.shared + "/a/b").ok());
  CHECK_FALSE(own.Resolve(site.state).ok());
  CHECK_FALSE(own.Resolve(site.state + "/a").ok());
  CHECK(absl::IsPermissionDenied(own.Open(site.state + "/a").status()));
  CHECK(absl::IsNotFound(own.Find(site.shared + "/none").status()));
}

TEST_CASE("result roots: the results root may be a link, and paths may be spelled through it") {
  Site site;
  const std::string link = site.temp.path() + "/link";
  fs::create_directory_symlink(site.shared, link);
  const ResultRoots roots({.results_root = link});
  CHECK(roots.Open(link)->path() == site.shared);
  CHECK(roots.Open(link + "/e/t")->path() == site.shared + "/e/t");
  CHECK(*roots.Resolve(link + "/e") == site.shared + "/e");
}

TEST_CASE("result roots: a root where rt keeps its own files is refused") {
  Site site;
  for (const std::string& root : {site.state, site.state + "/ca"}) {
    const ResultRoots roots(
        {.results_root = site.other, .others = {root}, .guarded = {site.state}});
    CHECK(absl::IsFailedPrecondition(roots.Check()));
  }
  CHECK(site.roots.Check().ok());
}

TEST_CASE("a folder follows no link, opens only regular files, and stays where it was opened") {
  Site site;
  const Folder folder = *site.roots.Open(site.shared + "/e");
  const std::string path = site.shared + "/e";
  std::ofstream(site.other + "/victim") << "kept";
  fs::create_symlink(site.other + "/victim", path + "/link");
  fs::create_symlink(site.other + "/victim", path + "/new.tmp");
  fs::create_directory_symlink(site.other, path + "/dir");
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
  fs::rename(path, site.shared + "/moved");
  fs::create_directory_symlink(site.other, path);
  CHECK(folder.Append("rows", "abc", length).ok());
  CHECK(folder.Append("rows", "d", length).ok());
  length = 2;
  CHECK(folder.Append("rows", "e", length).ok());
  std::ostringstream text;
  text << std::ifstream(site.shared + "/moved/rows").rdbuf();
  CHECK(text.str() == "abe");
  length = 9;
  CHECK(absl::IsDataLoss(folder.Append("rows", "f", length)));
  CHECK(fs::file_size(site.other + "/victim") == 4);
  CHECK(std::distance(fs::directory_iterator(site.other), {}) == 1);
}

}  // namespace
}  // namespace rt
