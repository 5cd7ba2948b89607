// Read models of nodes.
#include <map>

#include "common/base/status.h"
#include "head/core/draft.h"
#include "head/core/pools.h"
#include "head/view/parts.h"
#include "head/view/view.h"

namespace rt {
namespace {

std::string StateReasonOf(const Core& core, const Node& node) {
  if (node.reason.empty() && node.draining) return node.drain_reason;
  if (node.away_until != 0)
    return "away until " + FormatTime(node.away_until) + ": its worker was stopped in order";
  auto soft = core.soft.nodes.find(node.id);
  return node.reason.empty() && soft != core.soft.nodes.end() ? soft->second.fault : node.reason;
}

std::string ReasonOf(const Core& core, const Node& node) {
  std::string reason = StateReasonOf(core, node);
  if (node.gone || !HasRival(core, node.id, core.soft.last_step_at)) return reason;
  if (!reason.empty()) reason += "; ";
  return reason +
         "two programs have this node's certificate: an older daemon still calls, and "
         "only the later one is listened to";
}

Json NumberOrNull(int64_t value, double each = 1) {
  if (value < 0) return Json();
  return each == 1 ? Json(value) : Json(static_cast<double>(value) * each);
}

// Absent numbers are those that the device does not tell.
Json SampleOf(const GpuSample& sample) {
  Json throttle = Json::MakeArray();
  for (const std::string& name : ThrottleNames(sample.throttle)) throttle.Append(name);
  Json processes = Json::MakeArray();
  for (const GpuProcess& one : sample.processes)
    processes.Append(Json::MakeObject({{"pid", Json(one.pid)},
                                       {"name", TextOrNull(one.name)},
                                       {"memory_bytes", one.memory},
                                       {"attempt", TextOrNull(one.attempt)}}));
  return Json::MakeObject({{"at", TimeOrNull(sample.at)},
                           {"utilisation_percent", NumberOrNull(sample.utilisation)},
                           {"memory_utilisation_percent", NumberOrNull(sample.memory_utilisation)},
                           {"memory_used_bytes", NumberOrNull(sample.memory_used)},
                           {"temperature_c", NumberOrNull(sample.temperature)},
                           {"power_w", NumberOrNull(sample.power_milliwatts, 1e-3)},
                           {"power_limit_w", NumberOrNull(sample.power_limit_milliwatts, 1e-3)},
                           {"sm_mhz", NumberOrNull(sample.sm_mhz)},
                           {"memory_mhz", NumberOrNull(sample.memory_mhz)},
                           {"throttled_by", std::move(throttle)},
                           {"ecc_corrected", NumberOrNull(sample.ecc_corrected)},
                           {"ecc_uncorrected", NumberOrNull(sample.ecc_uncorrected)},
                           {"retired_pages", NumberOrNull(sample.retired_pages)},
                           {"remapped_rows", NumberOrNull(sample.remapped_rows)},
                           {"remap_pending", sample.remap_pending},
                           {"remap_failed", sample.remap_failed},
                           {"nvlinks_up", NumberOrNull(sample.nvlinks_up)},
                           {"nvlink_sent_bytes", NumberOrNull(sample.nvlink_sent)},
                           {"nvlink_received_bytes", NumberOrNull(sample.nvlink_received)},
                           {"pcie_generation", NumberOrNull(sample.pcie_generation)},
                           {"pcie_lanes", NumberOrNull(sample.pcie_lanes)},
                           {"pcie_sent_bytes", NumberOrNull(sample.pcie_sent)},
                           {"pcie_received_bytes", NumberOrNull(sample.pcie_received)},
                           {"pcie_replays", NumberOrNull(sample.pcie_replays)},
                           {"processes", std::move(processes)}});
}

// READY; QUARANTINED until it is cleared; UNHEALTHY while its fault lasts.
const char* GpuStateName(const GpuInfo& gpu) {
  if (gpu.fault.empty()) return "READY";
  return gpu.quarantine != 0 ? "QUARANTINED" : "UNHEALTHY";
}

Json TelemetryOf(const Core& core, NodeId node, const std::string& uuid) {
  const auto soft = core.soft.nodes.find(node);
  if (soft == core.soft.nodes.end()) return Json();
  for (const GpuSample& sample : soft->second.gpu_samples)
    if (sample.uuid == uuid) return SampleOf(sample);
  return Json();
}

// When a probe ended its quarantine, and what it found; null: a person did, or it had none.
Json ClearedOf(const Node& node, const std::string& uuid) {
  for (const ClearedGpu& one : node.cleared_gpus)
    if (one.uuid == uuid && !one.probe.empty())
      return Json::MakeObject({{"at", TimeOrNull(one.at)}, {"reason", one.probe}});
  return Json();
}

// Those of its links that a preflight found to be slow.
Json SlowLinksOf(const State& state, NodeId node) {
  Json links = Json::MakeArray();
  for (const SlowLink& link : state.slow_links) {
    if (!link.Has(node)) continue;
    const NodeId other = link.node == node ? link.other : link.node;
    links.Append(
        Json::MakeObject({{"node_id", link.is_of_node() ? Json() : Json(other.value)},
                          {"node", link.is_of_node() ? Json() : Json(state.nodes.at(other).name)},
                          {"bus_gbps", link.bus_gbps},
                          {"asked_gbps", link.asked_gbps},
                          {"at", TimeOrNull(link.at)},
                          {"tries", static_cast<int64_t>(link.tries)},
                          {"retry_at", TimeOrNull(link.retry_at())}}));
  }
  return links;
}

Json NodeItem(const Core& core, const Node& node) {
  auto index = core.world.index.nodes.find(node.id);
  auto soft = core.soft.nodes.find(node.id);
  Json attempts = Json::MakeArray();
  Resources used;
  std::map<uint32_t, int64_t> gpus_used;
  int64_t held = 0;
  if (index != core.world.index.nodes.end()) {
    held = index->second.replica_count;
    used = index->second.used;
    gpus_used = index->second.gpus_used;
    for (const Fence& fence : index->second.attempts) attempts.Append(ToString(fence));
  }
  Json gpus = Json::MakeArray();
  for (const GpuInfo& gpu : node.inventory.gpus) {
    const double used_units = static_cast<double>(gpus_used[gpu.index]);
    gpus.Append(Json::MakeObject({{"uuid", gpu.uuid},
                                  {"index", Json(gpu.index)},
                                  {"name", gpu.name},
                                  {"memory_bytes", gpu.memory},
                                  {"used_fraction", used_units / static_cast<double>(kUnit)},
                                  {"state", GpuStateName(gpu)},
                                  {"reason", TextOrNull(gpu.fault)},
                                  {"island", Json(gpu.island)},
                                  {"cleared", ClearedOf(node, gpu.uuid)},
                                  {"telemetry", TelemetryOf(core, node.id, gpu.uuid)}}));
  }
  Json labels = Json::MakeObject();
  for (const auto& [key, value] : node.inventory.labels) labels.Set(key, value);
  const bool is_heard = soft != core.soft.nodes.end() && soft->second.seen;
  const Millis seen = is_heard ? soft->second.last_seen_at : node.seen_at;
  return Json::MakeObject({{"id", Json(node.id.value)},
                           {"name", node.name},
                           {"pool", TextOrNull(node.pool)},
                           {"address", TextOrNull(node.inventory.address)},
                           {"state", NodeStateName(core, node)},
                           {"reason", TextOrNull(ReasonOf(core, node))},
                           {"drain_until", TimeOrNull(node.drain_until)},
                           {"labels", std::move(labels)},
                           {"resources_total", ToJson(node.inventory.resources)},
                           {"resources_used", ToJson(used)},
                           {"gpus", std::move(gpus)},
                           {"slow_links", SlowLinksOf(core.world.state, node.id)},
                           {"attempts", std::move(attempts)},
                           {"held_checkpoints", Json(held)},
                           {"pid", node.inventory.pid == 0 ? Json() : Json(node.inventory.pid)},
                           {"version", TextOrNull(node.inventory.version)},
                           {"boot_id", TextOrNull(node.inventory.boot_id)},
                           {"joined_at", TimeOrNull(node.joined_at)},
                           {"last_seen_at", TimeOrNull(seen)}});
}

// A node that is on its way: it has no number before it joins.
Json RequestedItem(const Core& core, const Machine& machine, Millis now) {
  const std::string trouble = TroubleOf(core.world.state, machine.pool, now);
  std::string reason = "the provider is asked for it";
  if (!machine.id.empty()) reason = "the provider has it as " + machine.id + "; it has not joined";
  else if (!trouble.empty()) reason += "; " + trouble;
  const auto pool = core.soft.pools.find(machine.pool);
  const Resources each = pool == core.soft.pools.end() ? Resources{} : pool->second.each;
  return Json::MakeObject({{"id", Json()},
                           {"name", MachineName(machine.number)},
                           {"pool", machine.pool},
                           {"address", Json()},
                           {"state", "REQUESTED"},
                           {"reason", reason},
                           {"requested_at", TimeOrNull(machine.requested_at)},
                           {"drain_until", Json()},
                           {"labels", Json::MakeObject()},
                           {"resources_total", each.gpu == kAnyGpus ? Json() : ToJson(each)},
                           {"resources_used", ToJson(Resources{})},
                           {"gpus", Json::MakeArray()},
                           {"slow_links", Json::MakeArray()},
                           {"attempts", Json::MakeArray()},
                           {"held_checkpoints", Json(0)},
                           {"pid", Json()},
                           {"version", Json()},
                           {"boot_id", Json()},
                           {"joined_at", Json()},
                           {"last_seen_at", Json()}});
}

}  // namespace

// The requested machines come first, because they have no number by which a page could begin.
Json NodePageView(const Core& core, const HeadFacts& facts, const ListSpan& span) {
  Json page =
      PageOf(core.world.state.nodes, span, [&](const Node& node) { return NodeItem(core, node); });
  if (span.from > 1) return page;
  Json items = Json::MakeArray();
  for (const Machine* machine : RequestedMachines(core.world.state))
    items.Append(RequestedItem(core, *machine, facts.now));
  for (const Json& item : page.Find("items")->array()) items.Append(item);
  page.Set("items", std::move(items));
  return page;
}

Json NodeListView(const Core& core, const HeadFacts& facts) {
  Json items = Json::MakeArray();
  for (const Machine* machine : RequestedMachines(core.world.state))
    items.Append(RequestedItem(core, *machine, facts.now));
  for (const auto& [id, node] : core.world.state.nodes) items.Append(NodeItem(core, node));
  return Listing(std::move(items));
}

absl::StatusOr<Json> NodeView(const Core& core, const HeadFacts&, NodeId id) {
  auto found = core.world.state.nodes.find(id);
  if (found == core.world.state.nodes.end())
    return NotFound("there is no node " + std::to_string(id.value));
  return NodeItem(core, found->second);
}

absl::StatusOr<Json> RequestedNodeView(const Core& core, const HeadFacts& facts,
                                       const std::string& name) {
  for (const Machine* machine : RequestedMachines(core.world.state))
    if (MachineName(machine->number) == name) return RequestedItem(core, *machine, facts.now);
  return NotFound("there is no node '" + name + "'");
}

}  // namespace rt
