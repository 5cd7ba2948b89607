#include "common/run/shared_object.h"

#include <dlfcn.h>

#include "common/base/status.h"

namespace rt {

absl::StatusOr<SharedObject> SharedObject::Open(const std::string& name,
                                                const std::string& package) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return WithHint(absl::FailedPreconditionError(ToAbsl(::dlerror())), "install " + package);
  }
  return SharedObject(name, handle);
}

absl::StatusOr<void*> SharedObject::Find(const char* symbol) const {
  void* found = ::dlsym(handle_, symbol);
  if (found == nullptr) {
    return absl::FailedPreconditionError(ToAbsl(name_ + " has no function " + symbol));
  }
  return found;
}

}  // namespace rt
