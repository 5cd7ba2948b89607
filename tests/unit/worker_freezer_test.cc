// Processes that are stopped where they are, and what is noted of it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "common/base/strings.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/launch/freezer.h"

namespace rt::worker {
namespace {

char LetterOf(pid_t pid) {
  const auto text = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  return text.ok() ? (*text)[text->rfind(')') + 2] : ' ';
}

// A child with a child of its own; both have mapped a file, and wait until they are killed.
class Tree {
 public:
  // `variable`: in the environment of both, if not empty; /proc shows what exec was given.
  explicit Tree(const std::string& mapped, const std::string& variable = "") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    root_ = ::fork();
    if (root_ == 0) {
      ::setsid();
      const int fd = ::open(mapped.c_str(), O_RDONLY);
      if (fd >= 0) ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
      if (!variable.empty()) Wait(ends[1], variable);
      const pid_t child = ::fork();
      if (child != 0 && ::write(ends[1], &child, sizeof child) != sizeof child) ::_exit(1);
      for (;;) ::pause();
    }
    REQUIRE(::read(ends[0], &child_, sizeof child_) == sizeof child_);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Tree() {
    ::kill(-root_, SIGKILL);
    ::waitpid(root_, nullptr, 0);
  }
  pid_t root() const { return root_; }
  bool IsStopped() const { return LetterOf(root_) == 'T' && LetterOf(child_) == 'T'; }
  // SIGCONT takes a moment.
  bool Runs() const {
    for (int i = 0; i < 30'000; ++i) {
      if (LetterOf(root_) != 'T' && LetterOf(child_) != 'T') return true;
      ::usleep(1'000);
    }
    return false;
  }

 private:
  // A shell that says the pid of its child, in binary, as above.
  [[noreturn]] static void Wait(int out, const std::string& variable) {
    ::dup2(out, 1);
    const char* script =
        "sleep 1000 & p=$!; printf \"\\\\$(printf %o $((p%256)))\\\\$(printf %o $((p/256%256)))"
        "\\\\$(printf %o $((p/65536%256)))\\\\000\"; wait";
    const char* argv[] = {"/bin/bash", "-c", script, nullptr};
    const char* env[] = {variable.c_str(), "PATH=/usr/bin:/bin", nullptr};
    ::execve(argv[0], const_cast<char**>(argv), const_cast<char**>(env));
    ::_exit(127);
  }
  pid_t root_ = 0, child_ = 0;
};

// With a rt-gpu-suspend that notes its calls, and fails for one of them.
struct Place {
  TempDir dir{"freezer"};
  Freezer freezer{dir.path(), 2'000};

  // `lies`: this action is said to be done, and changes nothing. `dies`: it is killed.
  explicit Place(const std::string& fails = "", const std::string& lies = "",
                 const std::string& dies = "") {
    std::ofstream(dir.path() + "/libcuda.so.1") << "mapped";
    std::ofstream(dir.path() + "/rt-gpu-suspend")
        << "#!/bin/sh\ncd " << dir.path() << "\necho $1 >>calls\n"
        << "if [ $1 = '" << fails << "' ]; then echo '{\"error\":\"no luck\"}'; exit 1; fi\n"
        << "if [ $1 = '" << dies << "' ]; then kill -9 $$; fi\n"
        << "[ $1 = '" << lies
        << "' ] || case $1 in suspend) echo suspended >$2;; resume) echo running >$2;; esac\n"
        << "echo '{\"error\":null,\"state\":\"'$(cat $2 2>/dev/null || echo running)'\"}'\n";
    ::chmod((dir.path() + "/rt-gpu-suspend").c_str(), 0755);
  }
  // It does this for the action instead.
  void Replace(const std::string& action, const std::string& script) const {
    const std::string path = dir.path() + "/rt-gpu-suspend";
    const std::string text = *ReadFile(path);
    std::ofstream(path) << "#!/bin/sh\nif [ $1 = " << action << " ]; then cd " << dir.path()
                        << "; echo $1 >>calls; " << script << "; fi\n"
                        << text;
  }
  FreezeJob JobOf(const Tree& tree, bool has_gpus = false) const {
    return {.program = *ReadProcessIdentity(tree.root()),
            .note = dir.path() + "/note",
            .round = 1,
            .has_gpus = has_gpus};
  }
  FreezeNote note() const { return ReadFreezeNote(dir.path() + "/note"); }
  size_t Calls(const std::string& action) const {
    std::ifstream file(dir.path() + "/calls");
    size_t count = 0;
    for (std::string line; std::getline(file, line);) count += line == action ? 1 : 0;
    return count;
  }
};

TEST_CASE("freezer: all processes of a tree stop, and continue") {
  Place place;
  Tree tree("");
  const FreezeJob job = place.JobOf(tree);
  CHECK(place.freezer.Freeze(job).why == "");
  CHECK(tree.IsStopped());
  CHECK(place.note().step == FreezeStep::kFrozen);
  CHECK(place.note().since > 0);
  FreezeJob again = job;
  again.round = 2;
  CHECK(place.freezer.Freeze(again).why == "");
  CHECK(place.note().round == 2);
  CHECK(place.freezer.Thaw(job).why == "");
  CHECK(tree.Runs());
  CHECK(place.note().step == FreezeStep::kNone);
  CHECK(place.note().since == 0);
  CHECK(place.Calls("suspend") == 0);
}

TEST_CASE("freezer: nothing is frozen whose gpus are not known to be free then") {
  Place place;
  Tree tree("");
  FreezeJob job = place.JobOf(tree, true);
  job.gpu_hang = "its driver does not answer";  // So that gpu_users is empty.
  const FreezeEnd end = place.freezer.Freeze(job);
  CHECK(end.why == "its driver does not answer");
  CHECK(!end.is_broken);
  CHECK(tree.Runs());
  CHECK(place.note().step == FreezeStep::kNone);
}

TEST_CASE("freezer: what is on gpus moves first, and comes back last") {
  Place place;
  Tree tree(place.dir.path() + "/libcuda.so.1");
  CHECK(place.freezer.Freeze(place.JobOf(tree, true)).why == "");
  CHECK(tree.IsStopped());
  CHECK(place.Calls("suspend") == 2);
  CHECK(place.note().gpu_pids.size() == 2);
  CHECK(place.freezer.Thaw(place.JobOf(tree, true)).why == "");
  CHECK(place.Calls("resume") == 2);
  CHECK(place.note().gpu_pids.empty());
  CHECK(tree.Runs());
}

TEST_CASE("freezer: what does not use the driver is not asked about") {
  Place place;
  Tree tree("");
  CHECK(place.freezer.Freeze(place.JobOf(tree, true)).why == "");
  CHECK(place.Calls("state") == 0);
}

TEST_CASE("freezer: processes that the driver does not know keep their gpus") {
  Place place("state");
  Tree tree(place.dir.path() + "/libcuda.so.1");
  CHECK(place.freezer.Freeze(place.JobOf(tree, true)).why ==
        "the driver knows none of its processes: no luck");
  CHECK(tree.Runs());
}

TEST_CASE("freezer: a driver that cannot leaves the processes as they were") {
  Place place(GENERATE("check", "suspend"));
  Tree tree(place.dir.path() + "/libcuda.so.1");
  const FreezeEnd end = place.freezer.Freeze(place.JobOf(tree, true));
  CHECK(end.why == "no luck");
  CHECK_FALSE(end.is_broken);
  CHECK(tree.Runs());
  CHECK(place.note().step == FreezeStep::kNone);
}

TEST_CASE("freezer: what cannot come back is broken") {
  Place place("resume");
  Tree tree(place.dir.path() + "/libcuda.so.1");
  CHECK(place.freezer.Freeze(place.JobOf(tree, true)).why == "");
  const FreezeEnd end = place.freezer.Thaw(place.JobOf(tree, true));
  CHECK(end.why == "it could not continue after it was frozen: no luck");
  CHECK(end.is_broken);
}

TEST_CASE("freezer: memory that the host has not, or that was not asked for, is refused") {
  Place place;
  Tree tree("");
  FreezeJob job = place.JobOf(tree, true);
  job.gpu_memory = Bytes{1} << 50;
  CHECK(place.freezer.Freeze(job).why.find("of free memory of its machine") != std::string::npos);
  job.gpu_memory = 1 << 20;
  job.memory_limit = 1 << 20;
  CHECK(place.freezer.Freeze(job).why.find("of memory that it asked for") != std::string::npos);
  CHECK(tree.Runs());
}

TEST_CASE("freezer: a rt-gpu-suspend that says what is not so, or is killed, is not believed") {
  Place lying("", "suspend"), dying("", "", "suspend"), stuck("", "resume");
  for (Place* place : {&lying, &dying}) {
    Tree tree(place->dir.path() + "/libcuda.so.1");
    const FreezeEnd end = place->freezer.Freeze(place->JobOf(tree, true));
    CHECK(end.why.find(place == &lying ? "is running" : "killed by signal 9") != std::string::npos);
    CHECK_FALSE(end.is_broken);
    CHECK(tree.Runs());
    CHECK(place->note().step == FreezeStep::kNone);
  }
  Tree tree(stuck.dir.path() + "/libcuda.so.1");
  REQUIRE(stuck.freezer.Freeze(stuck.JobOf(tree, true)).why == "");
  const FreezeEnd end = stuck.freezer.Thaw(stuck.JobOf(tree, true));
  CHECK(end.is_broken);
  CHECK(end.why.find("is suspended") != std::string::npos);
}

TEST_CASE("freezer: a rt-gpu-suspend that hangs is not asked about the next process") {
  const std::string action = GENERATE("check", "state", "suspend");
  Place place;
  place.Replace(action, "exec sleep 60");
  Tree tree(place.dir.path() + "/libcuda.so.1");
  const FreezeEnd end = place.freezer.Freeze(place.JobOf(tree, true));
  CHECK(end.why.find("did not end within") != std::string::npos);
  CHECK_FALSE(end.is_broken);
  CHECK(place.Calls(action) == 1);
  CHECK(tree.Runs());
  CHECK(place.note().step == FreezeStep::kNone);
}

TEST_CASE("freezer: of what rt-gpu-suspend prints the reason has little, and only what prints") {
  const std::string script = GENERATE(
      "head -c 1000000 /dev/urandom; exit 3", "yes | tr -d '\\n' | head -c 1000000; exit 3",
      "printf '{\"error\":\"'; yes x | tr -d '\\n' | head -c 50000; echo '\"}'; exit 1",
      "printf '{\"state\":\"'; yes x | tr -d '\\n' | head -c 50000; echo '\"}'; exit 0");
  Place place;
  place.Replace("suspend", script);
  Tree tree(place.dir.path() + "/libcuda.so.1");
  const FreezeEnd end = place.freezer.Freeze(place.JobOf(tree, true));
  CHECK(!end.why.empty());
  CHECK(end.why.size() < 1'500);
  CHECK(EscapeControl(end.why) == end.why);
  CHECK(tree.Runs());
}

TEST_CASE("freezer: a process that has left the tree stops with it, by its token") {
  Place place;
  Tree tree(""), other("", "RT_TOKEN=of-this-one"), foreign("", "RT_TOKEN=of-this-one-2");
  FreezeJob job = place.JobOf(tree);
  job.token = "of-this-one";
  CHECK(place.freezer.Freeze(job).why == "");
  CHECK(tree.IsStopped());
  CHECK(other.IsStopped());
  CHECK(foreign.Runs());
  CHECK(place.freezer.Thaw(job).why == "");
  CHECK(tree.Runs());
  CHECK(other.Runs());
}

TEST_CASE("freezer: what holds the gpus of a program that does not use them keeps it running") {
  Place place;
  Tree tree("");
  FreezeJob job = place.JobOf(tree, true);
  job.gpu_users = {{.pid = 7, .memory = 1 << 20, .name = "python", .attempt = ""}};
  CHECK(place.freezer.Freeze(job).why ==
        "none of its processes has opened the driver, but process 7 (python) holds memory of its "
        "gpus: it may run in a container");
  CHECK(tree.Runs());
  job.gpu_users.clear();
  CHECK(place.freezer.Freeze(job).why == "");
}

TEST_CASE("freezer: what is frozen stays frozen where a later round cannot be noted") {
  Place place;
  Tree tree("");
  FreezeJob job = place.JobOf(tree);
  REQUIRE(place.freezer.Freeze(job).why == "");
  job.round = 2;
  // As where the disk is full.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &none);
  const FreezeEnd end = place.freezer.Freeze(job);
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK(end.why == "");
  CHECK(tree.IsStopped());
  CHECK(place.note().round == 1);
}

TEST_CASE("freezer: a torn or absent note says nothing") {
  TempDir dir{"freezer"};
  const std::string path = dir.path() + "/note";
  CHECK(ReadFreezeNote(path).step == FreezeStep::kNone);
  std::ofstream(path) << "frozen 1 2 3";
  CHECK(ReadFreezeNote(path).step == FreezeStep::kNone);
  REQUIRE(WriteFreezeNote(path, {FreezeStep::kThawing, 4, 5, 6, {7, 8}}).ok());
  const FreezeNote note = ReadFreezeNote(path);
  CHECK(note.step == FreezeStep::kThawing);
  CHECK(note.round == 4);
  CHECK(note.since == 5);
  CHECK(note.total == 6);
  CHECK(note.gpu_pids == std::set<pid_t>{7, 8});
}

}  // namespace
}  // namespace rt::worker
