// rt-gpu-suspend: takes a process off its gpus and puts it back, without its help. A program of its
// own, because the driver's calls may hang, and a daemon that links no driver calls it.
//
//   rt-gpu-suspend check               whether this machine can
//   rt-gpu-suspend state PID
//   rt-gpu-suspend suspend PID         its memory moves to the host; its calls of CUDA block
//   rt-gpu-suspend resume PID
//
// Prints one JSON object; exits with 0, 1 when it failed, 2 when it was called wrongly.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "worker/gpu/json_text.h"
#include "worker/gpu/suspend/driver.h"

namespace rt::worker {
namespace {

constexpr unsigned kLockMs = 30'000;  // A kernel that runs longer keeps the process as it is.

int Print(const std::string& action, int pid, const std::string& state, double seconds, int version,
          const std::string& why) {
  std::printf(
      "{\"schema\":1,\"action\":\"%s\",\"pid\":%s,\"state\":%s,\"seconds\":%.3f,"
      "\"driver\":%d,\"error\":%s}\n",
      action.c_str(), pid == 0 ? "null" : std::to_string(pid).c_str(),
      JsonTextOrNull(state).c_str(), seconds, version, JsonTextOrNull(why).c_str());
  return why.empty() ? 0 : 1;
}

int Act(const std::string& action, int pid) {
  CudaSuspender driver;
  std::string why = driver.Open();
  const auto began = std::chrono::steady_clock::now();
  CudaState state = CudaState::kRunning;
  std::string name;
  if (why.empty() && action == "suspend") why = driver.Suspend(pid, kLockMs);
  if (why.empty() && action == "resume") why = driver.Resume(pid);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (why.empty() && pid != 0) why = driver.StateOf(pid, state);
  if (why.empty() && pid != 0) name = CudaStateName(state);
  return Print(action, pid, name, took.count(), driver.driver_version(), why);
}

int SuspendMain(int argc, char** argv) {
  const std::string action = argc > 1 ? argv[1] : "";
  const int pid = argc > 2 ? std::atoi(argv[2]) : 0;
  const bool takes_pid = action == "state" || action == "suspend" || action == "resume";
  const bool is_right = (action == "check" && argc == 2) || (takes_pid && argc == 3 && pid > 0);
  if (is_right) return Act(action, pid);
  std::fputs("usage: rt-gpu-suspend check | state PID | suspend PID | resume PID\n", stderr);
  return 2;
}

}  // namespace
}  // namespace rt::worker

int main(int argc, char** argv) { return rt::worker::SuspendMain(argc, argv); }
