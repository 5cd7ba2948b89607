// What a Sync may say of a node.
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "head/service/translate.h"
#include "rt/v1/worker.pb.h"

using namespace rt;

namespace {

v1::SyncRequest Plain() {
  v1::SyncRequest sync;
  sync.set_incarnation(1);
  sync.set_sync_seq(1);
  sync.mutable_inventory()->mutable_resources()->set_cpu(4 * kUnit);
  return sync;
}
std::string ErrorOf(const v1::SyncRequest& sync) {
  const absl::Status status = SyncFromWire(sync, NodeId{1}).status();
  return status.ok() ? "" : MessageOf(status);
}
std::string ErrorOf(const std::function<void(v1::Resources&)>& change) {
  v1::SyncRequest sync = Plain();
  change(*sync.mutable_inventory()->mutable_resources());
  return ErrorOf(sync);
}

}  // namespace

TEST_CASE("sync: a node's resources have bounds, so that their totals are numbers") {
  CHECK(ErrorOf(Plain()).empty());
  CHECK(ErrorOf([](auto& r) { r.set_cpu(INT64_MAX); }).find("too large") != std::string::npos);
  CHECK(ErrorOf([](auto& r) { r.set_memory(INT64_MAX); }).find("1 PiB") != std::string::npos);
  CHECK(ErrorOf([](auto& r) { (*r.mutable_custom())["a"] = INT64_MAX; }).find("too large") !=
        std::string::npos);
  CHECK(ErrorOf([](auto& r) { r.set_cpu(-1); }) == "a node's resources cannot be negative");
  CHECK(ErrorOf([](auto& r) { r.set_memory(Bytes{1} << 50); }).empty());
  CHECK(ErrorOf([](auto& r) {
          (*r.mutable_custom())[std::string(65, 'a')] = 1;
        }).starts_with("a node's resource has a name of 1 to 64 bytes"));
}

TEST_CASE("sync: a node has a bounded number of custom resources and labels") {
  const auto add = [](v1::SyncRequest& sync, int count, bool labels) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "n" + std::to_string(i);
      if (labels) (*sync.mutable_inventory()->mutable_labels())[name] = "x";
      else (*sync.mutable_inventory()->mutable_resources()->mutable_custom())[name] = 1;
    }
  };
  v1::SyncRequest most = Plain(), named = Plain(), labelled = Plain();
  add(most, 256, true);
  add(most, 256, false);
  CHECK(ErrorOf(most).empty());
  add(named, 257, false);
  CHECK(ErrorOf(named) == "a node has 257 custom resources, at most 256 are allowed");
  add(labelled, 257, true);
  CHECK(ErrorOf(labelled) == "a node has 257 labels, at most 256 are allowed");
}
