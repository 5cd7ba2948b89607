#include "common/run/random.h"

#include <sys/random.h>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace rt {

std::string RandomHex(size_t bytes) {
  std::string drawn(bytes, '\0');
  // Up to 256 bytes come at once, and whole.
  RT_CHECK(bytes <= 256 && ::getrandom(drawn.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  return ToHex(drawn);
}

}  // namespace rt
