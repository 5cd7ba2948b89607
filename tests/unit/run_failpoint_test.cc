#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <set>

#include "common/base/status.h"
#include "common/run/failpoint.h"

using namespace rt;

namespace {

const std::string kOperation = "head.journal.before_commit";
const std::string kMoment = "head.loop.before_append";

struct Arming {
  explicit Arming(const std::string& text) : status(ArmFailpoints(text, "head")) {}
  ~Arming() { ArmFailpoints("", "head").IgnoreError(); }
  const absl::Status status;
};

absl::Status Commit() { return FailAt("head.journal.before_commit"); }

}  // namespace

TEST_CASE("failpoints: nothing happens unless one is armed") {
  CHECK(Commit().ok());
  Arming none("");
  CHECK(none.status.ok());
  CHECK(Commit().ok());
  ReachFailpoint("head.loop.before_append");
}

TEST_CASE("failpoints: an error comes at the time that was asked for, and only then") {
  Arming armed(kOperation + "=error@3");
  REQUIRE(armed.status.ok());
  CHECK(Commit().ok());
  CHECK(Commit().ok());
  const absl::Status failed = Commit();
  CHECK(MessageOf(failed) == "failpoint head.journal.before_commit: Input/output error");
  CHECK(Commit().ok());
  CHECK(FailAt("head.journal.after_commit").ok());
}

TEST_CASE("failpoints: a stop is over after the time that was asked for") {
  Arming armed(kMoment + "=stop:30");
  REQUIRE(armed.status.ok());
  const auto begin = std::chrono::steady_clock::now();
  ReachFailpoint("head.loop.before_append");
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));
}

TEST_CASE("failpoints: a kill is one that nothing can catch, at once or after a while") {
  const std::string action = GENERATE("=kill@2", "=kill:30@2");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(STDERR_FILENO);
    if (!ArmFailpoints(kMoment + action, "head").ok()) ::_exit(1);
    ReachFailpoint("head.loop.before_append");
    ReachFailpoint("head.loop.before_append");
    ::_exit(2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

TEST_CASE("failpoints: what is said wrong is refused as a whole, and says what there is") {
  const std::string good = kOperation + "=error,";
  const std::pair<std::string, std::string> wrong[] = {
      {"head.journal.before_comit=kill", "did you mean"},
      {kOperation, "is not NAME=ACTION"},
      {kOperation + "=explode", "there are: kill, kill:MS, stop:MS, error"},
      {kOperation + "=error:5", "there are: kill, kill:MS, stop:MS, error"},
      {kOperation + "=stop", "MS is 1 to 600000"},
      {kOperation + "=stop:x", "MS is 1 to 600000"},
      {kOperation + "=kill:0", "MS is 1 to 600000"},
      {kOperation + "=kill@0", "@K is @1 or more"},
      {kMoment + "=error", "cannot fail"},
      {kMoment + "=kill," + kMoment + "=kill", "twice"},
      {"worker.no.such=kill", "no failpoint"}};
  for (const auto& [text, said] : wrong) {
    INFO(text);
    Arming armed(good + text);
    CHECK(absl::IsInvalidArgument(armed.status));
    CHECK(MessageOf(armed.status).find(said) != std::string::npos);
    CHECK(Commit().ok());
    Arming alone(text);
    CHECK(MessageOf(alone.status).find(said) != std::string::npos);
  }
  CHECK(HintOf(Arming("x=kill").status).find(kMoment) != std::string::npos);
}

TEST_CASE("failpoints: what is said of the other daemon is left to it, and checked") {
  Arming armed("worker.spool.before_append=error," + kOperation + "=error");
  REQUIRE(armed.status.ok());
  CHECK(FailAt("worker.spool.before_append").ok());
  CHECK(!Commit().ok());
}

TEST_CASE("failpoints: each has a name of its own that begins with its daemon, and is listed") {
  std::set<std::string_view> names;
  for (const FailpointInfo& one : kFailpoints) {
    INFO(one.name);
    CHECK(names.insert(one.name).second);
    const std::string line = std::string(one.name) + (one.can_fail ? " kill stop error\n"
                                                                   : " kill stop\n");
    const std::string daemon(one.name.substr(0, one.name.find('.')));
    CHECK(ListFailpoints(daemon).find(line) != std::string::npos);
  }
  CHECK(ListFailpoints("head").find("worker.") == std::string::npos);
}
