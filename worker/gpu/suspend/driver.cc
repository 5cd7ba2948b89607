#include "worker/gpu/suspend/driver.h"

#include <dlfcn.h>

#include <cstdint>

#include "worker/gpu/symbols.h"

namespace rt::worker {
namespace {

// As CUcheckpointLockArgs; those of the other calls are 64 bytes of zeros.
struct LockArgs {
  unsigned timeout_ms = 0;
  unsigned zero = 0;
  uint64_t zeros[7] = {};
};
struct NoArgs {
  uint64_t zeros[8] = {};
};

}  // namespace

const char* CudaStateName(CudaState state) {
  switch (state) {
    case CudaState::kRunning: return "running";
    case CudaState::kLocked: return "locked";
    case CudaState::kSuspended: return "suspended";
    case CudaState::kFailed: return "failed";
  }
  return "unknown";
}

std::string CudaSuspender::Why(const char* what, int code) const {
  const char* text = nullptr;
  if (name_ != nullptr) name_(code, &text);
  return std::string(what) + ": " + (text == nullptr ? "error " + std::to_string(code) : text);
}

std::string CudaSuspender::Open() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "there is no libcuda.so.1: no driver is installed here";
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  FindSymbol(library, "cuGetErrorString", name_);
  if (FindSymbol(library, "cuDriverGetVersion", version)) version(&version_);
  const bool all = FindSymbol(library, "cuCheckpointProcessGetState", state_) &&
                   FindSymbol(library, "cuCheckpointProcessLock", lock_) &&
                   FindSymbol(library, "cuCheckpointProcessCheckpoint", checkpoint_) &&
                   FindSymbol(library, "cuCheckpointProcessRestore", restore_) &&
                   FindSymbol(library, "cuCheckpointProcessUnlock", unlock_);
  if (!all) return "the driver cannot suspend processes: it takes release 570 or later";
  if (!FindSymbol(library, "cuInit", init)) return "libcuda.so.1 has no cuInit";
  if (const int code = init(0); code != 0) return Why("the driver does not start", code);
  return "";
}

std::string CudaSuspender::StateOf(pid_t pid, CudaState& state) const {
  int number = 0;
  if (const int code = state_(pid, &number); code != 0)
    return Why("ask for the state of the process", code);
  state = static_cast<CudaState>(number);
  return "";
}

std::string CudaSuspender::Suspend(pid_t pid, unsigned lock_ms) const {
  LockArgs lock{.timeout_ms = lock_ms, .zeros = {}};
  NoArgs none;
  if (const int code = lock_(pid, &lock); code != 0) return Why("lock the process", code);
  const int code = checkpoint_(pid, &none);
  if (code == 0) return "";
  NoArgs undo;
  unlock_(pid, &undo);
  return Why("move the memory of the gpu to the host", code);
}

// One that is locked only was not suspended, or is half resumed.
std::string CudaSuspender::Resume(pid_t pid) const {
  CudaState state = CudaState::kRunning;
  if (std::string why = StateOf(pid, state); !why.empty()) return why;
  NoArgs none;
  if (state == CudaState::kSuspended)
    if (const int code = restore_(pid, &none); code != 0)
      return Why("move the memory back to the gpu", code);
  NoArgs unlocked;
  if (state != CudaState::kRunning)
    if (const int code = unlock_(pid, &unlocked); code != 0) return Why("unlock the process", code);
  return "";
}

}  // namespace rt::worker
