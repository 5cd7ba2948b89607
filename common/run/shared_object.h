// A library that is opened when it is first wanted, because it brings dozens of others along that
// most processes never use. Any thread; it stays open.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rt {

class SharedObject {
 public:
  // FailedPrecondition: it is not there; the hint names the package that brings it.
  static absl::StatusOr<SharedObject> Open(const std::string& name, const std::string& package);
  // Sets `function` to the library's function of that name; FailedPrecondition when it has none.
  template <class Function>
  absl::Status Bind(Function*& function, const char* name) const {
    absl::StatusOr<void*> found = Find(name);
    if (found.ok()) function = reinterpret_cast<Function*>(*found);
    return found.status();
  }

 private:
  SharedObject(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Find(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace rt
