#include <catch2/catch.hpp>

#include "common/cas/mem_objects.h"
#include "common/cas/retry_objects.h"

using namespace rt;

namespace {

// A memory store whose next calls fail: before they are done, or after.
class Failing : public MemObjects {
 public:
  int before = 0, after = 0;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  int calls = 0;

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override {
    ++calls;
    if (before > 0 && before--) return absl::Status(code, "not now");
    absl::Status status = MemObjects::PutIfAbsent(key, bytes);
    if (after > 0 && after--) return absl::Status(code, "lost the answer");
    return status;
  }
  absl::StatusOr<std::string> Get(const std::string& key) override {
    ++calls;
    if (before > 0 && before--) return absl::Status(code, "not now");
    return MemObjects::Get(key);
  }
};

}  // namespace

TEST_CASE("retry: only what may pass is repeated, a bounded number of times, with bounded waits") {
  Failing below;
  std::vector<Millis> waits;
  RetryObjects store(below, {.attempts_max = 6, .base = 100, .cap = 400},
                     [&](Millis wait) { waits.push_back(wait); });
  REQUIRE(below.Put("k", "v").ok());
  below.before = 3;
  CHECK(*store.Get("k") == "v");
  REQUIRE(waits.size() == 3);
  CHECK(waits[0] < 100);
  CHECK(waits[1] < 200);
  below.before = 100;
  CHECK(absl::IsUnavailable(store.Get("k").status()));
  CHECK(below.before == 94);
  for (Millis wait : waits) CHECK((wait >= 0 && wait < 400));
  below.code = absl::StatusCode::kPermissionDenied;
  CHECK(absl::IsPermissionDenied(store.Get("k").status()));
  CHECK(below.before == 93);
}

TEST_CASE("retry: a PutIfAbsent that was done, but whose answer was lost, succeeded") {
  Failing below;
  RetryObjects store(below, {}, [](Millis) {});
  below.after = 1;
  CHECK(store.PutIfAbsent("k", "mine").ok());
  CHECK(*below.Get("k") == "mine");
  CHECK(absl::IsAlreadyExists(store.PutIfAbsent("k", "mine")));
}

TEST_CASE("retry: a PutIfAbsent whose answer was lost lost to another's bytes") {
  Failing below;
  RetryObjects store(below, {}, [](Millis) {});
  REQUIRE(below.MemObjects::PutIfAbsent("k", "theirs").ok());
  below.after = 1;
  CHECK(absl::IsAlreadyExists(store.PutIfAbsent("k", "mine")));
  CHECK(*below.Get("k") == "theirs");
}

TEST_CASE("retry: a PutIfAbsent that was never done is done at last") {
  Failing below;
  RetryObjects store(below, {}, [](Millis) {});
  below.before = 3;
  CHECK(store.PutIfAbsent("k", "mine").ok());
  CHECK(*below.Get("k") == "mine");
}
