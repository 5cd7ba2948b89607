// What is written into the files of a cgroup: a plain directory stands for the kernel's.
// tests/integration/test_memory.py and test_cpu_limit.py have the kernel, where it lets them.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/status.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/limits/cgroup.h"

namespace rt::worker {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kHalfCore = 5'000;

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  REQUIRE(WriteFileAtomic(path.string(), text, {.sync = false}).ok());
}

std::string Read(const fs::path& path) {
  auto text = ReadFile(path.string(), 4096);
  REQUIRE(text.ok());
  return *text;
}

// A group with these controllers, and one below it for a worker, which holds one for `fence`.
struct FakeGroup {
  TempDir dir{"cgroup"};
  Fence fence{{Owner::Of(TrialId{{1}, 2}), 1, 1}, 0};
  fs::path mine;

  explicit FakeGroup(const std::string& controllers) {
    Write(dir.File("cgroup.controllers"), controllers);
    Write(dir.File("cgroup.subtree_control"), controllers);
    { Cgroups first(dir.path(), "/state"); }
    for (const auto& one : fs::directory_iterator(dir.path()))
      if (one.is_directory()) FAIL("an empty group was left behind");
    for (const char* name : {"memory.max", "memory.swap.max", "memory.oom.group", "cpu.max"})
      files.push_back(name);
  }
  // What the kernel would put into a new group.
  void Fill() {
    Cgroups naming(dir.path(), "/state");
    fs::path group;
    for (const auto& one : fs::directory_iterator(dir.path()))
      if (one.is_directory()) group = one.path();
    REQUIRE_FALSE(group.empty());
    const std::string controllers = Read(dir.File("cgroup.controllers"));
    Write(group / "cgroup.controllers", controllers);
    Write(group / "cgroup.subtree_control", controllers);
    mine = group / rt::ToString(fence);
    for (const std::string& name : files)
      if (controllers.find(name.substr(0, name.find('.'))) != std::string::npos)
        Write(mine / name, "max     ");
  }
  std::vector<std::string> files;
};

TEST_CASE("a rank is held to the memory and the cpus that it asked for") {
  FakeGroup group("cpu memory");
  group.Fill();
  const Cgroups cgroups(group.dir.path(), "/state");
  CHECK(cgroups.can_limit_cpu());
  CHECK(cgroups.Make(group.fence, {}).empty());
  CHECK_FALSE(cgroups.HoldsMemory(group.fence));
  CHECK(cgroups.Make(group.fence, {.cpu = kHalfCore}) == group.mine);
  CHECK(Read(group.mine / "cpu.max") == "50000 100000");
  CHECK_FALSE(cgroups.HoldsMemory(group.fence));
  CHECK(cgroups.Make(group.fence, {.memory = 104'857'600, .cpu = 1}) == group.mine);
  CHECK(Read(group.mine / "cpu.max").starts_with("1000 100000"));  // No less: the kernel's bound.
  CHECK(Read(group.mine / "memory.max") == "104857600");
  CHECK(cgroups.HoldsMemory(group.fence));
}

TEST_CASE("what the kernel cannot limit here is said, and the rest is limited") {
  FakeGroup cpu_only("cpu"), memory_only("memory");
  cpu_only.Fill();
  memory_only.Fill();
  const Cgroups cpu(cpu_only.dir.path(), "/state"), memory(memory_only.dir.path(), "/state");
  const ResourceLimits both{.memory = 1 << 20, .cpu = kHalfCore};
  CHECK(cpu.Make(cpu_only.fence, both) == cpu_only.mine);
  CHECK_FALSE(cpu.HoldsMemory(cpu_only.fence));  // MemoryWatch looks after it.
  CHECK_FALSE(memory.can_limit_cpu());
  CHECK(memory.Make(memory_only.fence, both) == memory_only.mine);
  CHECK(memory.HoldsMemory(memory_only.fence));
  CHECK(memory.Make(memory_only.fence, {.cpu = kHalfCore}).empty());
  const Cgroups none("", "/state");
  CHECK(none.Make(cpu_only.fence, both).empty());
  CHECK_FALSE(none.can_limit_cpu());
}

}  // namespace
}  // namespace rt::worker
