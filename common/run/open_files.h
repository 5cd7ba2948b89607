// How many files a daemon may have open. A daemon raises its soft limit to the hard one, because a
// port that has no descriptor left accepts nobody. What it starts gets back the limit that was
// found first: programs that use select(2) break above 1024. The number travels in the
// environment, through a head that starts workers, and rt-shim, which starts trials, obeys it.
// Call before other threads are there. Header-only: rt-shim links nothing of ours.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace rt {

inline constexpr char kFoundOpenFiles[] = "RT_FOUND_OPEN_FILES";

inline void RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  ::setenv(kFoundOpenFiles, std::to_string(limit.rlim_cur).c_str(), 0);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

inline void GiveBackOpenFiles() {
  const char* found = ::getenv(kFoundOpenFiles);
  rlimit limit{};
  if (found == nullptr || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const unsigned long long before = std::strtoull(found, nullptr, 10);
  if (before > 0) limit.rlim_cur = std::min<rlim_t>(before, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::unsetenv(kFoundOpenFiles);
}

}  // namespace rt
