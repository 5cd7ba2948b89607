// The directory of a worker's sockets: nobody else can take it first.
#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/rng.h"
#include "common/run/files.h"
#include "common/run/runtime_dir.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

// Where release 0.1 had it.
std::string Derived(const std::string& state_dir) {
  uint64_t hash = 0;
  for (char letter : state_dir) hash = Mix64(hash ^ static_cast<unsigned char>(letter));
  char path[64];
  std::snprintf(path, sizeof path, "/tmp/rt-%u-%08x", ::getuid(), static_cast<unsigned>(hash));
  return path;
}
mode_t ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}

struct Site {
  TempDir temp{"runtime"};
  std::string state = temp.path();
  std::string derived = Derived(state);

  Site() { ::unsetenv("XDG_RUNTIME_DIR"); }
  ~Site() {
    if (const auto made = FindRuntimeDir(state)) std::filesystem::remove_all(*made);
    std::filesystem::remove_all(derived);
  }
  std::string Make() {
    auto made = MakeRuntimeDir(state);
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    return *made;
  }
};

}  // namespace

TEST_CASE("runtime directory: who makes the name of before first does not keep the worker away") {
  Site site;
  REQUIRE(::mkdir(site.derived.c_str(), 0777) == 0);
  REQUIRE(::chmod(site.derived.c_str(), 0777) == 0);  // Somebody else may enter it.
  const std::string made = site.Make();
  CHECK(made != site.derived);
  CHECK(ModeOf(made) == 0700);
  CHECK(FindRuntimeDir(site.state) == made);
}

TEST_CASE("runtime directory: it stays the same for later daemons, also when /tmp was cleared") {
  Site site;
  const std::string made = site.Make();
  CHECK(made.starts_with("/tmp/rt-"));
  CHECK(ModeOf(site.state + "/runtime-dir") == 0600);
  CHECK(site.Make() == made);
  REQUIRE(::rmdir(made.c_str()) == 0);
  CHECK(!FindRuntimeDir(site.state));
  CHECK(site.Make() == made);
  CHECK(ModeOf(made) == 0700);
}

TEST_CASE("runtime directory: a recorded name that somebody else took is given up") {
  Site site;
  const std::string made = site.Make();
  REQUIRE(::rmdir(made.c_str()) == 0);
  SECTION("by a directory that others may enter") {
    REQUIRE(::mkdir(made.c_str(), 0700) == 0);
    REQUIRE(::chmod(made.c_str(), 0777) == 0);
  }
  SECTION("by a link") { std::filesystem::create_symlink(site.state, made); }
  const std::string other = site.Make();
  CHECK(other != made);
  CHECK(site.Make() == other);
  std::filesystem::remove(made);
}

TEST_CASE("runtime directory: that of a daemon of release 0.1 is found") {
  Site site;
  REQUIRE(::mkdir(site.derived.c_str(), 0700) == 0);
  CHECK(FindRuntimeDir(site.state) == site.derived);
  CHECK(site.Make() == site.derived);
  CHECK(FindRuntimeDir(site.state) == site.derived);
}

TEST_CASE("runtime directory: XDG_RUNTIME_DIR where it is ours, short, and lasts") {
  Site site;
  std::string base = site.temp.path();
  SECTION("ours") {
    if (base.size() > 26) return;  // TMPDIR is long here.
    ::setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
    CHECK(site.Make().starts_with(base + "/rt-"));
  }
  SECTION("others may enter it") {
    REQUIRE(::chmod(base.c_str(), 0755) == 0);
    ::setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
    CHECK(site.Make().starts_with("/tmp/rt-"));
  }
  SECTION("too long for sockets") {
    base += "/a-directory-with-a-long-name";
    REQUIRE(::mkdir(base.c_str(), 0700) == 0);
    ::setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
    CHECK(site.Make().starts_with("/tmp/rt-"));
  }
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_CASE("runtime directory: a record that names something else is not believed") {
  Site site;
  for (const char* text : {"/etc\n", "../rt-x\n", "/tmp/../etc/rt-x\n", "\n"}) {
    REQUIRE(WriteFileAtomic(site.state + "/runtime-dir", text).ok());
    CHECK(!FindRuntimeDir(site.state));
  }
  CHECK(site.Make().starts_with("/tmp/rt-"));
}
