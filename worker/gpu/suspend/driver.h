// The driver's calls that take a process off its gpus and put it back, without its help: those of
// cuda-checkpoint, in libcuda.so.1 from release 570 on. Opened at run time; the types are those of
// cuda.h, whose ABI they are. The memory of the gpus moves to that of the process in between.
#pragma once

#include <sys/types.h>

#include <string>

namespace rt::worker {

enum class CudaState { kRunning = 0, kLocked = 1, kSuspended = 2, kFailed = 3 };
const char* CudaStateName(CudaState state);

class CudaSuspender {
 public:
  // "": it can; otherwise why not.
  std::string Open();
  int driver_version() const { return version_; }  // 13000: CUDA 13.0.

  // Each returns why it failed; "": it did not. Failed halves are undone as far as the driver lets.
  std::string StateOf(pid_t pid, CudaState& state) const;
  std::string Suspend(pid_t pid, unsigned lock_ms) const;
  std::string Resume(pid_t pid) const;

 private:
  std::string Why(const char* what, int code) const;
  int version_ = 0;
  int (*name_)(int, const char**) = nullptr;
  int (*state_)(int, int*) = nullptr;
  int (*lock_)(int, void*) = nullptr;
  int (*checkpoint_)(int, void*) = nullptr;
  int (*restore_)(int, void*) = nullptr;
  int (*unlock_)(int, void*) = nullptr;
};

}  // namespace rt::worker
