#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "common/base/status.h"
#include "common/run/subprocess.h"

using namespace rt;

TEST_CASE("subprocess: argv, environment and folder arrive as they are") {
  auto echo = RunProgram({.argv = {"printf", "%s|", "a b", "$HOME", "`x`", ""}}, "", 20'000);
  REQUIRE(echo.ok());
  CHECK(echo->output == "a b|$HOME|`x`||");
  CHECK(echo->exit.ok());
  auto env = RunProgram({.argv = {"/usr/bin/env"}, .env = {{"A=1"}}}, "", 20'000);
  CHECK(env->output == "A=1\n");
  CHECK(RunProgram({.argv = {"pwd"}, .cwd = "/usr"}, "", 20'000)->output == "/usr\n");
  CHECK(RunProgram({.argv = {"cat"}}, "input", 20'000)->output == "input");
}

TEST_CASE("subprocess: what cannot start says so") {
  CHECK(absl::IsNotFound(Subprocess::Spawn({.argv = {"/no/such/program"}}).status()));
  CHECK(!Subprocess::Spawn({.argv = {}}).ok());
  CHECK(!Subprocess::Spawn({.argv = {"true"}, .cwd = "/no/such"}).ok());
  CHECK(!Subprocess::Spawn({.argv = {"true", std::string("a\0b", 3)}}).ok());
}

TEST_CASE("subprocess: exit codes and signals are told apart") {
  auto process = Subprocess::Spawn({.argv = {"sleep", "60"}, .setsid = true});
  REQUIRE(process.ok());
  CHECK(!process->Wait(0).has_value());
  CHECK(!process->Wait(20).has_value());
  REQUIRE(process->Kill(SIGKILL, true).ok());
  auto exit = process->Wait(20'000);
  REQUIRE(exit.has_value());
  CHECK(exit->signal == SIGKILL);
  CHECK(ToString(*exit) == "killed by signal 9 (Killed)");
  CHECK(process->Kill(SIGKILL).ok());
  CHECK(RunProgram({.argv = {"false"}}, "", 20'000)->exit.code == 1);
  CHECK(absl::IsDeadlineExceeded(RunProgram({.argv = {"sleep", "60"}}, "", 50).status()));
}

TEST_CASE("subprocess: a program that writes without end is ended at its deadline") {
  CHECK(absl::IsDeadlineExceeded(RunProgram({.argv = {"yes"}}, "", 300, 64).status()));
  // One that has ended is over, whatever its children still write.
  const auto ended = RunProgram({.argv = {"sh", "-c", "yes & echo; exit 3"}}, "", 20'000, 64);
  REQUIRE(ended.ok());
  CHECK(ended->exit.code == 3);
  CHECK(ended->output.size() <= 64);
}

TEST_CASE("subprocess: only the listed descriptors are open in the child") {
  int one = ::open("/dev/null", O_RDONLY), two = ::open("/dev/zero", O_RDONLY);
  auto list = RunProgram({.argv = {"sh", "-c", "readlink /proc/$$/fd/* | grep -v pipe"},
                          .fds = {{one, two}, {two, one}}},
                         "", 20'000);
  REQUIRE(list.ok());
  size_t zero = list->output.find("/dev/zero"), null = list->output.find("/dev/null");
  CHECK(zero != std::string::npos);
  CHECK(null != std::string::npos);
  CHECK((zero < null) == (one < two));
  ::close(one);
  ::close(two);
  CHECK(!Subprocess::Spawn({.argv = {"true"}, .fds = {{0, 5}, {1, 5}}}).ok());
}

TEST_CASE("process identity: a process is itself until it ends, and a zombie is not alive") {
  auto self = ReadProcessIdentity(::getpid());
  REQUIRE(self.ok());
  CHECK(IsAlive(*self));
  CHECK(!IsAlive({.pid = self->pid, .start_time = self->start_time + 1}));
  auto process = Subprocess::Spawn({.argv = {"cat"}, .fds = {}});
  REQUIRE(process.ok());
  auto child = ReadProcessIdentity(process->pid());
  REQUIRE(child.ok());
  REQUIRE(process->Kill(SIGKILL).ok());
  REQUIRE(process->Wait(20'000).has_value());
  CHECK(!IsAlive(*child));
  CHECK(absl::IsNotFound(ReadProcessIdentity(0).status()));
}
