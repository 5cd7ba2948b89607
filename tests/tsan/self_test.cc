// Whether ThreadSanitizer sees races beside grpc_sync.cc, and none where there is a lock.
//   tsan_self_test race | lock
#include <cstdio>
#include <string_view>
#include <thread>

#include "absl/synchronization/mutex.h"

namespace {

absl::Mutex mutex;
int count = 0;

void Add(bool locks) {
  for (int i = 0; i < 1'000; ++i) {
    if (locks) mutex.Lock();
    ++count;
    if (locks) mutex.Unlock();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool locks = argc > 1 && std::string_view(argv[1]) == "lock";
  std::thread other([&] { Add(locks); });
  Add(locks);
  other.join();
  std::printf("%d\n", count);
  return 0;
}
