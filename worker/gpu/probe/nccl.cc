#include "worker/gpu/probe/nccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "worker/gpu/symbols.h"

namespace rt::probe {
namespace {

using worker::FindSymbol;

// Where the python3 on the path has its wheel nvidia-nccl-cu13 (or -cu12); "" when it has none.
std::string WheelDirectory() {
  constexpr char kAsk[] =
      "import importlib.util as u; s = u.find_spec('nvidia.nccl'); "
      "print(list(s.submodule_search_locations)[0] if s else '')";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    ::execlp("python3", "python3", "-c", kAsk, nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string directory;
  char bytes[4096];
  for (ssize_t got = 0; child > 0 && (got = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    directory.append(bytes, static_cast<size_t>(got));
  ::close(ends[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  return directory.substr(0, directory.find('\n'));
}

void* OpenLibrary() {
  std::vector<std::string> roots;
  if (const char* root = std::getenv("RT_NCCL_ROOT")) roots.emplace_back(root);
#ifdef RT_NCCL_ROOT
  roots.emplace_back(RT_NCCL_ROOT);
#endif
  for (const std::string& root : roots)
    if (void* found = ::dlopen((root + "/lib/libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL))
      return found;
  if (void* found = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) return found;
  const std::string wheel = WheelDirectory();
  if (wheel.empty()) return nullptr;
  return ::dlopen((wheel + "/lib/libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

std::string Nccl::Open() {
  void* library = OpenLibrary();
  if (library == nullptr)
    return "libnccl.so.2 was not found: install the wheel nvidia-nccl-cu13 and name its folder "
           "nvidia/nccl in RT_NCCL_ROOT";
  const bool all = FindSymbol(library, "ncclGetVersion", version) &&
                   FindSymbol(library, "ncclGetErrorString", error) &&
                   FindSymbol(library, "ncclGetUniqueId", unique_id) &&
                   FindSymbol(library, "ncclCommInitRank", init_rank) &&
                   FindSymbol(library, "ncclCommDestroy", destroy) &&
                   FindSymbol(library, "ncclAllReduce", all_reduce);
  return all ? "" : "libnccl.so.2 lacks functions that rt-probe needs";
}

std::string Nccl::name() const {
  int number = 0;
  if (version == nullptr || version(&number) != 0) return "NCCL";
  char text[64];
  std::snprintf(text, sizeof text, "NCCL %d.%d.%d", number / 10'000, number / 100 % 100,
                number % 100);
  return text;
}

}  // namespace rt::probe
