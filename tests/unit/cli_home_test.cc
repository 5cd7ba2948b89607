// Whom the command trusts on a machine of several users: the owner of RT_HOME, and pid files of
// daemons only.
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "cli/client/archive.h"
#include "cli/client/home.h"
#include "cli/client/local_cluster.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

TEST_CASE("home: a directory that others can write is refused, with what to do") {
  TempDir temp("home");
  const char* before = std::getenv("RT_HOME");
  const std::string restored = before == nullptr ? "" : before;
  ::setenv("RT_HOME", temp.path().c_str(), 1);
  for (mode_t mode : {0700, 0755}) {
    REQUIRE(::chmod(temp.path().c_str(), mode) == 0);
    CHECK(Home::Open().ok());
  }
  for (mode_t mode : {0777, 0775, 01777}) {
    REQUIRE(::chmod(temp.path().c_str(), mode) == 0);
    const absl::Status status = Home::Open().status();
    CHECK(MessageOf(status).find("can be written by others") != std::string::npos);
    CHECK(HintOf(status).starts_with("chmod go-w " + temp.path()));
  }
  if (before == nullptr) ::unsetenv("RT_HOME");
  else ::setenv("RT_HOME", restored.c_str(), 1);
}

TEST_CASE("home: without HOME it is that of the account, as in a shell") {
  const char* before = std::getenv("HOME");
  const std::string restored = before == nullptr ? "" : before;
  const passwd* account = ::getpwuid(::geteuid());
  REQUIRE(account != nullptr);
  ::unsetenv("HOME");
  CHECK(AbsolutePath("~/results") == AbsolutePath(std::string(account->pw_dir) + "/results"));
  ::setenv("HOME", "/somewhere", 1);
  CHECK(AbsolutePath("~/results") == "/somewhere/results");
  if (before == nullptr) ::unsetenv("HOME");
  else ::setenv("HOME", restored.c_str(), 1);
}

TEST_CASE("archive: what a purge does not delete is named, with the command that does") {
  TempDir temp("places");
  CHECK(PlacesElsewhere(temp.path()).empty());
  auto write = [&](const char* config) {
    REQUIRE(WriteFileAtomic(temp.File("config.json"), config, {.sync = false}).ok());
    return PlacesElsewhere(temp.path());
  };
  CHECK(write(R"({"cluster_name":"demo","provider":{"type":"local"}})").empty());
  const auto places = write(
      R"({"checkpoint_store":{"url":"s3://bucket/demo"},)"
      R"("journal":{"url":"postgres://rt:secret@db.lan/rt","ship":{"to":"/srv/copies"}}})");
  REQUIRE(places.size() == 3);
  CHECK(places[0].url == "s3://bucket/demo");
  CHECK(places[0].how == "aws s3 rm --recursive s3://bucket/demo");
  CHECK(places[1].url == "postgres://rt@db.lan/rt");
  CHECK(places[1].how.empty());
  CHECK(places[2].how == "rm -r /srv/copies");
}

TEST_CASE("pid file: a process that is no daemon of the directory is not believed") {
  TempDir temp("pid");
  const std::string path = temp.File("pid");
  const auto own = ReadProcessIdentity(::getpid());
  REQUIRE(own.ok());
  const std::string pid = std::to_string(own->pid);
  for (const std::string& text : {pid, pid + " " + std::to_string(own->start_time)}) {
    REQUIRE(WriteFileAtomic(path, text + "\n").ok());
    const absl::Status status = ReadPidFile(path).status();
    CHECK(absl::IsNotFound(status));
    CHECK(MessageOf(status) == path + ": another process");
  }
}

}  // namespace
}  // namespace rt
