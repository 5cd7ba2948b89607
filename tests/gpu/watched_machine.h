// What the tests of GpuWatch share: a machine whose gpus a file lists (tests/gpu/fake_nvml.cc), and
// a process that an attempt has left behind.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "tests/temp_dir.h"

namespace rt::worker {

struct WatchedMachine {
  TempDir dir{"gpuwatch"};
  const std::string file = dir.File("gpus.txt");
  WatchedMachine() { ::setenv("FAKE_NVML", file.c_str(), 1); }
  ~WatchedMachine() { ::unsetenv("FAKE_NVML"); }
  // Whole or not at all: the library reads at any moment.
  void Has(const std::string& lines) const {
    std::ofstream(file + ".new") << lines;
    ::rename((file + ".new").c_str(), file.c_str());
  }
};

inline bool Comes(const std::function<bool()>& condition, int seconds = 20) {
  for (int i = 0; i < seconds * 100; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

inline Fence FenceOfTrial(uint32_t trial) {
  return {{Owner::Of(TrialId{ExperimentId{1}, trial}), 1, 1}, 0};
}

// A process with an attempt's token in its environment; ended with this.
struct Leftover7 {
  const pid_t pid;
  Leftover7() : Leftover7(::fork()) {
    if (pid != 0) return;
    ::execle("/bin/sleep", "sleep", "60", nullptr, Environment().data());
    ::_exit(1);
  }
  explicit Leftover7(pid_t child) : pid(child) {
    // Its environment is that of the attempt once the program has begun.
    if (pid != 0) CHECK(Comes([this] { return Is(Environment().front()); }));
  }
  // Whether this is the first variable of its environment.
  bool Is(const std::string& variable) const {
    std::ifstream environment("/proc/" + std::to_string(pid) + "/environ");
    std::string text;
    return std::getline(environment, text, '\0') && text == variable;
  }
  ~Leftover7() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  static std::vector<char*> Environment() {
    static char token[] = "RT_TOKEN=0123456789abcdef";
    return {token, nullptr};
  }
  bool HasEnded() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
  }
};

}  // namespace rt::worker
