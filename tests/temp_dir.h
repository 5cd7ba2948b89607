// The directory of a test, a fuzzer or a bench that needs files: its own, and gone with everything
// below it when the object goes. Declare it before what keeps files open in it. In /tmp whatever
// TMPDIR says, and with a short name, because the paths of sockets are short.
#pragma once

#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/run/files.h"

namespace rt {

class TempDir {
 public:
  // /tmp/rt-NAME- and six random characters, for us alone.
  explicit TempDir(std::string_view name) : path_(Make(name)) {}
  ~TempDir() { RemoveTree(path_).IgnoreError(); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  static std::string Make(std::string_view name) {
    auto made = MakeTempDirectory("/tmp/rt-" + std::string(name) + "-");
    RT_CHECK_BECAUSE(made.ok(), made.status().ToString().c_str());
    return *std::move(made);
  }

  const std::string path_;
};

}  // namespace rt
