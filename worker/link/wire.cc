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

}  // namespace rt::worker
