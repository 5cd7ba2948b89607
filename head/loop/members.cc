#include "head/loop/members.h"

#include <mutex>

#include "common/base/status.h"

namespace rt {

std::function<void(absl::Status)> UnlessFailed(std::function<void()> run) {
  return [run = std::move(run)](const absl::Status& status) {
    if (status.ok()) run();
  };
}

Members::Standing Members::Of(NodeId node) const {
  std::shared_lock lock(mutex_);
  const auto found = gone_.find(node);
  if (found == gone_.end()) return Standing::kUnknown;
  return found->second ? Standing::kGone : Standing::kMember;
}

absl::Status Members::Check(NodeId node) const {
  const Standing standing = Of(node);
  if (standing == Standing::kMember) return absl::OkStatus();
  const std::string name = "node " + std::to_string(node.value);
  if (standing == Standing::kUnknown)
    return absl::UnavailableError("this head does not know " + name);
  return WithHint(
      absl::PermissionDeniedError(name + " has left the cluster: its certificate gives no rights"),
      "join it again with a new token");
}

void Members::Begin(const State& state) {
  std::unique_lock lock(mutex_);
  for (const auto& [id, node] : state.nodes) gone_[id] = node.gone;
}

std::function<void()> Members::ChangeOf(const std::vector<Record>& records) {
  std::map<NodeId, bool> changes;
  for (const Record& record : records) {
    if (const auto* joined = std::get_if<event::NodeJoined>(&record.event))
      changes[joined->node] = false;
    if (const auto* left = std::get_if<event::NodeGone>(&record.event)) changes[left->node] = true;
  }
  if (changes.empty()) return nullptr;
  return [this, changes = std::move(changes)] {
    std::unique_lock lock(mutex_);
    for (const auto& [node, is_gone] : changes) gone_[node] = is_gone;
  };
}

}  // namespace rt
