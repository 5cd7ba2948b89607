#include "common/provider/local_setup.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/local_provider.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

// Whether a worker of this machine may find gpus: only it will know how many.
bool MayHaveGpus() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

Bytes MemoryOfMachine() { return Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

class LocalSetup final : public ProviderSetup {
 public:
  explicit LocalSetup(std::vector<LocalWorker> workers) : workers_(std::move(workers)) {}

  absl::StatusOr<std::vector<Resources>> NodeSizes() const override {
    std::vector<Resources> sizes;
    for (const LocalWorker& worker : workers_) {
      absl::StatusOr<Resources> resources = ParseResourcesFlag(worker.resources);
      if (!resources.ok()) return Annotate(resources.status(), "provider/workers/" + worker.name);
      if (resources->cpu == 0) return std::vector<Resources>{};
      const bool says_gpu = ("," + worker.resources).find(",gpu=") != std::string::npos;
      sizes.push_back(Completed(*std::move(resources), says_gpu));
    }
    return sizes;
  }
  Resources SizeOf(const PoolSpec& pool) const override {
    return Completed(pool.each, pool.each.gpu > 0);
  }
  bool SharesAccount() const override { return true; }
  absl::StatusOr<std::unique_ptr<NodeProvider>> Start(const std::vector<PoolSpec>& pools,
                                                      ProviderContext context) const override {
    LocalProvider::Options options{.context = std::move(context), .workers = workers_};
    for (const PoolSpec& pool : pools) options.slots[pool.name] = pool.max_workers;
    return LocalProvider::Start(std::move(options));
  }

 private:
  // As the worker itself does; it runs on this machine.
  static Resources Completed(Resources resources, bool says_gpu) {
    if (resources.memory == 0) resources.memory = MemoryOfMachine();
    if (!says_gpu && MayHaveGpus()) resources.gpu = kAnyGpus;
    return resources;
  }
  const std::vector<LocalWorker> workers_;
};

absl::StatusOr<LocalWorker> ReadWorker(const Json& worker) {
  RT_RETURN_IF_ERROR(CheckKeys(worker, {"name", "resources", "labels"}, "provider/workers"));
  LocalWorker read{worker.GetString("name"), worker.GetString("resources"),
                   worker.GetString("labels")};
  const bool is_plain =
      !read.name.empty() && read.name[0] != '.' && read.name.find('/') == std::string::npos;
  if (!is_plain) return Invalid("a worker needs a name that can name a directory");
  return read;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadLocalSetup(const Json& provider) {
  RT_RETURN_IF_ERROR(CheckKeys(provider, {"type", "workers"}, "provider"));
  std::vector<LocalWorker> workers;
  if (const Json* list = provider.Find("workers"); list != nullptr) {
    if (!list->is_array()) return Invalid("provider/workers must be a list");
    for (const Json& item : list->array()) {
      RT_ASSIGN_OR_RETURN(LocalWorker worker, ReadWorker(item));
      for (const LocalWorker& other : workers)
        if (other.name == worker.name)
          return Invalid("two workers are called '" + worker.name + "'");
      workers.push_back(std::move(worker));
    }
  }
  return std::make_unique<LocalSetup>(std::move(workers));
}

}  // namespace rt
