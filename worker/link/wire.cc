#include "worker/link/wire.h"

#include "common/base/limits.h"
#include "common/base/strings.h"

namespace rt::worker {

void ToWire(const Owner& owner, v1::Owner* wire) {
  wire->set_kind(static_cast<uint32_t>(owner.kind));
  wire->set_group(owner.group);
  wire->set_number(owner.number);
}

void ToWire(const AttemptId& attempt, v1::AttemptId* wire) {
  ToWire(attempt.owner, wire->mutable_owner());
  wire->set_number(attempt.number);
  wire->set_generation(attempt.generation);
}

void ToWire(const Fence& fence, v1::Fence* wire) {
  ToWire(fence.attempt, wire->mutable_attempt());
  wire->set_rank(fence.rank);
}

void ToWire(const Observed& observed, v1::Observed* wire) {
  ToWire(observed.fence, wire->mutable_fence());
  wire->set_phase(static_cast<uint32_t>(observed.phase));
  wire->set_pid(observed.pid);
  wire->set_port(observed.port);
  wire->set_exit_code(observed.exit.exit_code);
  wire->set_signal(observed.exit.signal);
  wire->set_witnessed(observed.exit.witnessed);
  wire->set_launch_failed(observed.exit.launch_failed);
  wire->set_suspended(observed.suspended);
  wire->set_orphaned(observed.orphaned);
  wire->set_broken_checkpoint(observed.exit.broken_checkpoint);
  wire->set_hung(observed.exit.hung);
  for (uint32_t match : observed.log_matches) wire->add_log_matches(match);
  wire->set_last_seq(observed.last_seq);
  wire->set_acked_seq(observed.acked_seq);
  // A text that is no UTF-8 would keep the whole Sync from being sent, for ever.
  wire->set_reason(ValidUtf8(observed.exit.reason));
  wire->mutable_error()->set_kind(ValidUtf8(observed.error.kind));
  wire->mutable_error()->set_message(ValidUtf8(observed.error.message));
  wire->mutable_error()->set_traceback(ValidUtf8(observed.error.traceback));
}

void ToWire(const SpoolRow& row, v1::Row* wire) {
  wire->set_seq(row.seq);
  wire->set_iteration(row.iteration);
  wire->set_time_total_s(row.time_total_s);
  wire->set_timestamp(row.timestamp);
  wire->set_metrics(row.metrics);
}

void ToWire(const SentOutputs& outputs, v1::KeepOutputsRequest* wire) {
  wire->set_manifest(outputs.manifest);
  wire->set_files(outputs.files);
  wire->set_bytes(outputs.bytes);
  size_t bytes = 0;
  for (const std::string& path : outputs.paths) {
    const auto named = static_cast<size_t>(wire->paths_size());
    if (named >= limits::kOutputNamesMax) break;
    if (bytes + path.size() > limits::kOutputNamesBytesMax) continue;
    bytes += path.size();
    wire->add_paths(path);
  }
  bytes = 0;
  for (const NotKept& one : outputs.left_out) {
    const size_t more = one.path.size() + one.reason.size();
    const auto named = static_cast<size_t>(wire->left_out_size());
    if (named >= limits::kOutputNamesMax) break;
    if (bytes + more > limits::kOutputNamesBytesMax) continue;
    bytes += more;
    v1::LeftOut* left_out = wire->add_left_out();
    left_out->set_path(one.path);
    left_out->set_bytes(one.bytes);
    left_out->set_reason(one.reason);
  }
  wire->set_left_out_files(outputs.left_out.size());
  wire->set_left_out_bytes(outputs.left_out_bytes);
}

Fence FromWire(const v1::Fence& wire) {
  const v1::AttemptId& attempt = wire.attempt();
  const Owner owner{static_cast<Owner::Kind>(attempt.owner().kind()), attempt.owner().group(),
                    attempt.owner().number()};
  return {{owner, attempt.number(), attempt.generation()}, wire.rank()};
}

LaunchBody FromWire(const v1::LaunchSpec& wire, const Fence& fence) {
  LaunchBody body{.fence = fence};
  body.argv.assign(wire.argv().begin(), wire.argv().end());
  body.env = {wire.env().begin(), wire.env().end()};
  body.bundle = wire.bundle();
  body.cwd = wire.cwd();
  for (const v1::InputFile& input : wire.inputs()) {
    body.inputs.push_back({input.manifest(), input.env()});
  }
  body.checkpoint = wire.checkpoint();
  body.checkpoint_shards.assign(wire.checkpoint_parts().begin(), wire.checkpoint_parts().end());
  body.checkpoint_on_replicas = wire.checkpoint_held();
  // What a later head may ask beyond what is known here is asked of the store.
  body.durable_after = wire.durable_after() > static_cast<uint32_t>(DurableAfter::kLocal)
                           ? DurableAfter::kStore
                           : static_cast<DurableAfter>(wire.durable_after());
  body.params = wire.params();
  body.gpu_uuids.assign(wire.gpu_uuids().begin(), wire.gpu_uuids().end());
  body.world_size = wire.world_size();
  body.port = wire.port();
  body.keeps_port = wire.keeps_port();
  body.iteration_base = wire.iteration_base();
  body.time_total_base_s = wire.time_total_base_s();
  body.control = wire.control();
  body.name = wire.name();
  body.report_regex = wire.report_regex();
  body.log_patterns.assign(wire.log_patterns().begin(), wire.log_patterns().end());
  body.watchdog_factor = wire.watchdog_factor();
  body.watchdog_min = wire.watchdog_min_ms();
  body.watchdog_dump = wire.watchdog_dump();
  body.limits = {.memory = wire.resources().memory(),
                 .cpu = wire.limit_cpu() ? wire.resources().cpu() : 0};
  return body;
}

}  // namespace rt::worker
