// The read models of what trials and jobs wrote, and of what is still on its way.
#include <algorithm>

#include "head/view/parts.h"
#include "head/view/view.h"

namespace rt {
namespace {

Json LeftOutJson(const LeftOut& one) {
  return Json::MakeObject(
      {{"path", one.path}, {"bytes", one.bytes}, {"reason", TextOrNull(one.reason)}});
}

}  // namespace

// Of several ranks one object: to restore all manifests into one directory gives the whole.
Json OutputsOf(const Runs& runs) {
  if (runs.outputs.empty()) return Json();
  Json manifest, parts = Json::MakeArray(), paths = Json::MakeArray();
  Json left_out = Json::MakeArray();
  uint64_t files = 0, left_out_files = 0;
  Bytes bytes = 0, left_out_bytes = 0;
  Millis kept_at = 0;
  for (const RankOutputs& one : runs.outputs) {
    const KeptOutputs& kept = one.kept;
    if (!kept.manifest.empty() && manifest.is_null()) manifest = Json(kept.manifest);
    else if (!kept.manifest.empty()) parts.Append(kept.manifest);
    for (const std::string& path : kept.paths) paths.Append(path);
    for (const LeftOut& left : kept.left_out) left_out.Append(LeftOutJson(left));
    files += kept.files;
    bytes += kept.bytes;
    left_out_files += kept.left_out_files;
    left_out_bytes += kept.left_out_bytes;
    kept_at = std::max(kept_at, one.kept_at);
  }
  return Json::MakeObject({{"attempt", Json(runs.outputs.front().attempt)},
                           {"manifest", std::move(manifest)},
                           {"parts", std::move(parts)},
                           {"files", Json(files)},
                           {"bytes", Json(bytes)},
                           {"paths", std::move(paths)},
                           {"left_out", std::move(left_out)},
                           {"left_out_files", Json(left_out_files)},
                           {"left_out_bytes", Json(left_out_bytes)},
                           {"kept_at", TimeOrNull(kept_at)}});
}

// Also while one that ran its newest attempt has not answered since the head started.
bool AwaitsOutputs(const Core& core, const Owner& owner, const Runs& runs) {
  const auto ran_on = [&](NodeId id) {
    return !runs.attempts.empty() && runs.attempts.back().ended_at != 0 &&
           std::any_of(runs.attempts.back().members.begin(), runs.attempts.back().members.end(),
                       [id](const Member& member) { return member.node == id; });
  };
  for (const auto& [id, node] : core.world.state.nodes) {
    if (!node.ready || !node.counts()) continue;
    const auto soft = core.soft.nodes.find(id);
    if (soft == core.soft.nodes.end() || !soft->second.seen) {
      if (ran_on(id)) return true;
      continue;
    }
    const std::set<Fence>& outputs = soft->second.outputs;
    const auto first = outputs.lower_bound({{owner, 0, 0}, 0});
    if (first != outputs.end() && first->attempt.owner == owner) return true;
  }
  return false;
}

// Unknown while a node has said nothing since the head started: it may have some.
Json OutputsPending(const Core& core) {
  size_t pending = 0;
  for (const auto& [id, node] : core.world.state.nodes) {
    if (!node.ready || !node.counts()) continue;
    auto soft = core.soft.nodes.find(id);
    if (soft == core.soft.nodes.end() || !soft->second.seen) return Json();
    pending += soft->second.outputs.size();
  }
  return Json(pending);
}

}  // namespace rt
