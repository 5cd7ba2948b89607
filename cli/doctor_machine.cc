// `rt doctor`: this machine.
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>

#include "cli/doctor.h"
#include "cli/render/spans.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

using Grade = Finding::Grade;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr rlim_t kFilesWanted = 4'096;
constexpr Millis kPythonMax = 20'000;

std::string Number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

Finding Programs() {
  absl::StatusOr<std::string> folder = BinaryDirectory();
  if (!folder.ok())
    return {"programs", Grade::kFail, MessageOf(folder.status()), "install rt again"};
  std::vector<std::string> missing;
  for (const char* name : {"rt", "rt-head", "rt-worker", "rt-shim"})
    if (access((*folder + "/" + name).c_str(), X_OK) != 0) missing.push_back(name);
  if (!missing.empty())
    return {"programs", Grade::kFail, *folder + " lacks " + Join(missing, ", "),
            "install rt again: its programs belong into one directory"};
  return {"programs", Grade::kOk,
          "rt " RT_VERSION " with rt-head, rt-worker and rt-shim is in " + *folder, ""};
}

Finding Python() {
  absl::StatusOr<std::string> python = FindProgram("python3");
  if (!python.ok())
    return {"python", Grade::kWarn, "python3 is not in the PATH",
            "trials in other languages work; for Python ones install Python 3.9 or newer"};
  SpawnOptions options;
  options.argv = {*python, "-c",
                  "import sys, cloudpickle; print('%d.%d.%d' % sys.version_info[:3])"};
  absl::StatusOr<ProgramResult> done = RunProgram(options, "", kPythonMax);
  std::string said(done.ok() ? Trim(done->output) : "");
  if (done.ok() && done->exit.code == 0)
    return {"python", Grade::kOk, *python + ", Python " + said + " with cloudpickle", ""};
  std::string what = done.ok() ? said.substr(said.rfind('\n') + 1) : MessageOf(done.status());
  return {"python", Grade::kWarn, *python + ": " + what,
          "Python trials need cloudpickle: pip install cloudpickle (or pip install ./python)"};
}

Finding Disk(const std::string& path) {
  struct statvfs space{};
  std::string there = path;
  while (there.size() > 1 && ::statvfs(there.c_str(), &space) != 0)
    there = there.substr(0, std::max<size_t>(1, there.rfind('/')));
  if (::access(there.c_str(), W_OK) != 0)
    return {"disk", Grade::kFail, there + " cannot be written: " + std::strerror(errno),
            "make it yours, or set RT_HOME and RT_RESULTS elsewhere"};
  double unit = static_cast<double>(space.f_frsize);
  return JudgeDisk(there, unit * static_cast<double>(space.f_bavail),
                   unit * static_cast<double>(space.f_blocks));
}

Finding Cgroup() {
  if (!Exists("/sys/fs/cgroup/cgroup.controllers"))
    return {"cgroup", Grade::kWarn, "cgroup v2 is not mounted",
            "rt uses process groups instead, checks the memory of trials five times a second, and "
            "ignores limit_cpu; boot with systemd.unified_cgroup_hierarchy=1"};
  std::ifstream file("/proc/self/cgroup");
  std::string line, own = "/";
  while (std::getline(file, line))
    if (line.starts_with("0::")) own = line.substr(3);
  std::string path = "/sys/fs/cgroup" + (own == "/" ? "" : own);
  if (::access((path + "/cgroup.procs").c_str(), W_OK) != 0)
    return {"cgroup", Grade::kWarn, path + " is not writable",
            "rt checks the memory of trials five times a second instead, and ignores limit_cpu; "
            "run the worker as a systemd unit with Delegate=yes"};
  return {"cgroup", Grade::kOk, "cgroup v2, writable at " + path, ""};
}

// Waits for the driver, perhaps without end.
Finding AskNvml() {
  bool driver = Exists("/proc/driver/nvidia/version");
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr && !driver) return {"gpu", Grade::kOk, "no NVIDIA driver here", ""};
  if (library == nullptr)
    return {"gpu", Grade::kFail, "the NVIDIA driver is loaded, but libnvidia-ml.so.1 is not found",
            "install the driver's libraries (in a container: start it with all of them)"};
  auto start = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  auto count = reinterpret_cast<int (*)(unsigned*)>(::dlsym(library, "nvmlDeviceGetCount_v2"));
  unsigned devices = 0;
  int code = start == nullptr || count == nullptr ? -1 : start();
  if (code == 0) code = count(&devices);
  ::dlclose(library);
  if (code != 0)
    return {"gpu", Grade::kFail, "NVML does not work (error " + std::to_string(code) + ")",
            "run nvidia-smi; after an update of the driver, reboot"};
  return {"gpu", Grade::kOk, "NVML lists " + Counted(devices, "NVIDIA device", "NVIDIA devices"),
          ""};
}

// A driver that hangs keeps its thread; it ends with the process.
Finding Gpu() {
  std::promise<Finding> told;
  std::future<Finding> finding = told.get_future();
  std::thread([told = std::move(told)]() mutable { told.set_value(AskNvml()); }).detach();
  if (finding.wait_for(std::chrono::milliseconds(limits::kGpuCallMax)) == std::future_status::ready)
    return finding.get();
  return {"gpu", Grade::kFail,
          "NVML has not answered for " + std::to_string(limits::kGpuCallMax / 1'000) +
              " s: the driver or a gpu hangs",
          kGpuHangHint};
}

Finding Files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kFilesWanted)
    return {"limits", Grade::kWarn,
            "at most " + std::to_string(limit.rlim_max) + " open files per process",
            "many trials at once need more: raise nofile in /etc/security/limits.conf"};
  return {"limits", Grade::kOk, std::to_string(limit.rlim_max) + " open files per process", ""};
}

Finding Ports() {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool bound = fd >= 0 &&
               ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
               ::listen(fd, 1) == 0;
  int error = errno;
  if (fd >= 0) ::close(fd);
  if (!bound)
    return {"ports", Grade::kFail,
            std::string("no server can listen on 127.0.0.1: ") + std::strerror(error),
            "bring the loopback interface up: ip link set lo up"};
  return {"ports", Grade::kOk, "a server can listen on 127.0.0.1", ""};
}

}  // namespace

const char* GradeName(Finding::Grade grade) {
  switch (grade) {
    case Grade::kOk:
      return "ok";
    case Grade::kWarn:
      return "warn";
    case Grade::kFail:
      break;
  }
  return "fail";
}

Finding JudgeDisk(const std::string& path, double free_bytes, double total_bytes) {
  std::string message = path + ": " + Number("%.1f", free_bytes / kGib) + " of " +
                        Number("%.1f GiB free", total_bytes / kGib);
  const char* hint = "make room, or set RT_HOME and RT_RESULTS to another disk";
  if (free_bytes < 0.1 * kGib) return {"disk", Grade::kFail, message, hint};
  if (free_bytes < 2 * kGib || free_bytes < 0.03 * total_bytes)
    return {"disk", Grade::kWarn, message, hint};
  return {"disk", Grade::kOk, message, ""};
}

std::vector<Finding> ExamineMachine(const Home& home) {
  std::vector<Finding> findings = {Programs(), Python(), Disk(home.root())};
  if (Finding results = Disk(ResultsRoot()); results.message != findings.back().message)
    findings.push_back(std::move(results));
  if (Finding temporary = Disk("/tmp"); temporary.grade != Grade::kOk)
    findings.push_back(std::move(temporary));
  for (const auto& check : {Cgroup, Gpu, Files, Ports}) findings.push_back(check());
  return findings;
}

}  // namespace rt
