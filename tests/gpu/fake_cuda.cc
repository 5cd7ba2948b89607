// A libcuda.so.1 for tests of rt-gpu-suspend: a suspended process is a stopped one, and its state
// is that of a file named by its pid in the folder that FAKE_CUDA names. FAKE_CUDA_FAILS names a
// call that fails ("lock", "checkpoint", "restore").
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr int kInvalid = 1, kNotReady = 600;

std::string PathOf(int pid) {
  const char* folder = std::getenv("FAKE_CUDA");
  return std::string(folder == nullptr ? "/nonexistent" : folder) + "/" + std::to_string(pid);
}
int Read(int pid) {
  int state = 0;
  std::ifstream(PathOf(pid)) >> state;
  return state;
}
// Tests read the file at any moment, so it is replaced whole.
int Write(int pid, int state) {
  const std::string path = PathOf(pid), part = path + ".part";
  std::ofstream file(part);
  file << state;
  file.close();
  return file.good() && std::rename(part.c_str(), path.c_str()) == 0 ? 0 : kInvalid;
}
int Move(int pid, const char* call, int from, int to) {
  const char* fails = std::getenv("FAKE_CUDA_FAILS");
  if (fails != nullptr && std::strcmp(fails, call) == 0) return kNotReady;
  return ::kill(pid, 0) == 0 && Read(pid) == from ? Write(pid, to) : kInvalid;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return std::getenv("FAKE_CUDA") == nullptr ? 100 : 0; }
int cuDriverGetVersion(int* version) {
  *version = 13'000;
  return 0;
}
int cuGetErrorString(int code, const char** text) {
  *text = code == kNotReady ? "device not ready" : "invalid argument";
  return 0;
}
int cuCheckpointProcessGetState(int pid, int* state) {
  *state = Read(pid);
  return ::kill(pid, 0) == 0 ? 0 : kInvalid;
}
int cuCheckpointProcessLock(int pid, void*) { return Move(pid, "lock", 0, 1); }
int cuCheckpointProcessCheckpoint(int pid, void*) {
  const int code = Move(pid, "checkpoint", 1, 2);
  if (code == 0) ::kill(pid, SIGSTOP);
  return code;
}
int cuCheckpointProcessRestore(int pid, void*) {
  const int code = Move(pid, "restore", 2, 1);
  if (code == 0) ::kill(pid, SIGCONT);
  return code;
}
int cuCheckpointProcessUnlock(int pid, void*) { return Move(pid, "unlock", 1, 0); }

}  // extern "C"
