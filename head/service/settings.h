// What the services know of this head beside the core: fixed for the process, but for the address,
// which is known once the server listens, and what the store holds. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/cas/blob_store.h"
#include "common/cas/unpack.h"
#include "common/rpc/identity.h"
#include "common/run/clock.h"
#include "common/run/result_roots.h"
#include "head/loop/head_loop.h"
#include "head/view/view.h"

namespace rt {

// Runs a job that may block (files, keys) off the gRPC and core threads.
using Io = std::function<void(std::function<void()>)>;
using JsonDone = std::function<void(absl::StatusOr<Json>)>;
using StatusDone = std::function<void(absl::Status)>;

// What a machine of a cloud gets before it is a node (BootService).
struct BootParts {
  // The bytes of the programs' archive, shared by all who read them. Blocks. Null: none are served.
  std::function<absl::StatusOr<std::shared_ptr<const std::string>>()> programs;
  std::map<std::string, std::vector<std::string>> setup_commands;  // By pool.
  // The files of the cluster (common/programs/served_mounts.h): all of {listing, digest}, and the
  // archive of a digest. Both block. Null: there are none.
  std::function<std::vector<std::pair<std::string, std::string>>()> mounts;
  std::function<absl::StatusOr<std::shared_ptr<const std::string>>(const std::string&)> mount;
};

class FetchedLogs;

class Settings {
 public:
  Settings(std::string cluster, KeyPair authority, ResultRoots results)
      : cluster_id(std::move(cluster)), ca(std::move(authority)), roots(std::move(results)) {}

  const std::string cluster_id;
  const KeyPair ca;
  const ResultRoots roots;  // Of results.

  void set_address(std::string address) {
    std::lock_guard lock(mutex_);
    address_ = std::move(address);
  }
  void set_store(SweptStore& store) {
    std::lock_guard lock(mutex_);
    store_ = &store;
  }
  // Why the head's port closed connections lately; "": it did not. Thread-safe, outlives its calls.
  void set_port_fault(std::function<std::string()> fault) {
    std::lock_guard lock(mutex_);
    port_fault_ = std::move(fault);
  }
  // Whether the bundle of a submission is accepted, by its size when it is unpacked. One that the
  // store lacks (yet) is checked by the workers. Blocks.
  absl::Status CheckSubmitted(const std::string& bundle) const {
    SweptStore* store = nullptr;
    {
      std::lock_guard lock(mutex_);
      store = store_;
    }
    if (store == nullptr || bundle.empty()) return absl::OkStatus();
    const absl::Status checked = CheckBundle(*store, bundle);
    return absl::IsNotFound(checked) ? absl::OkStatus() : checked;
  }
  void set_boot(BootParts boot) {
    std::lock_guard lock(mutex_);
    boot_ = std::move(boot);
  }
  BootParts boot() const {
    std::lock_guard lock(mutex_);
    return boot_;
  }
  void set_hook_problem(std::function<std::string()> hook_problem) {
    std::lock_guard lock(mutex_);
    hook_problem_ = std::move(hook_problem);
  }
  // Outlives the services; null: the head fetches none.
  void set_fetched_logs(const FetchedLogs* logs) {
    std::lock_guard lock(mutex_);
    fetched_logs_ = logs;
  }
  const FetchedLogs* fetched_logs() const {
    std::lock_guard lock(mutex_);
    return fetched_logs_;
  }
  // What Attend does; it returns the lease in ms.
  void set_attend(std::function<Millis()> attend) {
    std::lock_guard lock(mutex_);
    attend_ = std::move(attend);
  }
  // A client is there. Its lease in ms; 0: this head waits for none.
  Millis Attend() const {
    std::lock_guard lock(mutex_);
    return attend_ ? attend_() : 0;
  }
  HeadFacts FactsNow(const HeadLoop& loop) const {
    std::lock_guard lock(mutex_);
    StoreUse use = store_ == nullptr ? StoreUse{} : store_->use();
    return {.address = address_,
            .durable_seq = loop.durable_seq(),
            .shipped_seq = loop.shipped_seq(),
            .bytes_synced = loop.bytes_synced(),
            .now = WallClock(),
            .store = {use.used_bytes, use.quota_bytes, use.refuses, std::move(use.reason)},
            .hook_problem = hook_problem_ ? hook_problem_() : "",
            .port_fault = port_fault_ ? port_fault_() : ""};
  }

 private:
  mutable std::mutex mutex_;
  std::string address_;
  std::function<std::string()> hook_problem_;
  SweptStore* store_ = nullptr;
  std::function<std::string()> port_fault_;
  BootParts boot_;
  std::function<Millis()> attend_;
  const FetchedLogs* fetched_logs_ = nullptr;
};

}  // namespace rt
