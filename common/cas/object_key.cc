#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/object_store.h"

namespace rt {
namespace {

// Below what a file name may have on any file system that we know, with room for our own suffix.
constexpr size_t kComponentBytesMax = 200;
constexpr size_t kKeyBytesMax = 1'000;  // S3 takes 1024.

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

absl::Status CheckObjectKey(std::string_view key) {
  auto refused = [&](std::string_view why) {
    return Invalid("the object key '" + EscapeControl(key.substr(0, 100)) + "' " +
                   std::string(why));
  };
  if (key.empty() || key.size() > kKeyBytesMax) return refused("is empty, or beyond 1000 bytes");
  for (const std::string& component : Split(key, '/')) {
    if (component.empty() || component == "." || component == "..")
      return refused("has a component '" + component + "'");
    if (component.size() > kComponentBytesMax) return refused("has a component beyond 200 bytes");
    if (!std::all_of(component.begin(), component.end(), IsKeyCharacter))
      return refused("has characters beyond A-Z, a-z, 0-9, '.', '_' and '-'");
  }
  return absl::OkStatus();
}

}  // namespace rt
