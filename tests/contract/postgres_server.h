// A real PostgreSQL of a test: made in a temporary directory, reached by a Unix socket, ended by
// its pid. It refuses to run as root, so root's tests run it as the account "postgres".
#pragma once

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/run/subprocess.h"
#include "head/journal/postgres_database.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"

namespace rt {

class PostgresServer {
 public:
  // One per test program; gone at its end.
  static PostgresServer& Shared() {
    static PostgresServer server;
    return server;
  }

  // `schema` keeps the tables of one test apart from those of the others.
  std::string Url(const std::string& schema, const std::string& sockets = "") const {
    return "postgres://rt@/postgres?host=" + (sockets.empty() ? folder_.path() : sockets) +
           "&options=-csearch_path%3D" + schema;
  }
  std::string NewSchema() {
    const std::string name = "test" + std::to_string(++schemas_);
    Execute("public", "CREATE SCHEMA " + name);
    return name;
  }
  void Execute(const std::string& schema, const std::string& sql) {
    auto database = PostgresDatabase::Connect(Url(schema));
    INFO(database.status().ToString());
    REQUIRE(database.ok());
    absl::Status status = (*database)->Execute(sql.c_str());
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  std::string socket() const { return folder_.File(".s.PGSQL.5432"); }

 private:
  PostgresServer() {
    const std::string bin = FindPrograms();
    if (geteuid() == 0) {
      const passwd* account = getpwnam("postgres");
      REQUIRE(account != nullptr);
      REQUIRE(chown(folder_.path().c_str(), account->pw_uid, account->pw_gid) == 0);
      as_ = {"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"};
    }
    SpawnOptions make{.argv = As({bin + "/initdb", "-D", folder_.File("data"), "-A", "trust", "-U",
                                  "rt", "-E", "UTF8", "--no-locale", "--no-sync"}),
                      .cwd = folder_.path()};
    auto made = RunProgram(make, "", 60'000);
    REQUIRE(made.ok());
    INFO(made->output);
    REQUIRE(made->exit.ok());
    const int log = open(folder_.File("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    auto server = Subprocess::Spawn(
        {.argv = As({bin + "/postgres", "-D", folder_.File("data"), "-k", folder_.path(), "-h", "",
                     "-c", "max_connections=60"}),
         .cwd = folder_.path(),
         .fds = {{log, 1}, {log, 2}}});
    close(log);
    REQUIRE(server.ok());
    server_ = *std::move(server);
    const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
    while (!PostgresDatabase::Connect(Url("public")).ok()) {
      REQUIRE(std::chrono::steady_clock::now() < give_up_at);
      REQUIRE(!server_->Wait(20).has_value());
    }
  }
  ~PostgresServer() {
    if (server_.has_value()) {
      server_->Kill(SIGINT).IgnoreError();  // "Fast": ends its children.
      if (!server_->Wait(10'000).has_value()) server_->Kill(SIGKILL).IgnoreError();
    }
  }

  std::vector<std::string> As(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), as_.begin(), as_.end());
    return argv;
  }
  static std::string FindPrograms() {
    std::string found;
    std::error_code error;
    for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error))
      if (std::filesystem::exists(version.path() / "bin/initdb"))
        found = std::max(found, (version.path() / "bin").string());
    INFO("install the package postgresql (deploy/install-deps.sh)");
    REQUIRE(!found.empty());
    return found;
  }

  TempDir folder_{"pg"};
  std::vector<std::string> as_;
  std::optional<Subprocess> server_;
  int schemas_ = 0;
};

}  // namespace rt
