// Wire messages to the core's structs and back, with the limits on sizes. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "head/core/desired.h"
#include "head/core/inputs.h"
#include "head/loop/head_loop.h"
#include "rt/v1/common.pb.h"
#include "rt/v1/worker.pb.h"

namespace rt {

absl::StatusOr<Owner> FromWire(const v1::Owner& wire);
absl::StatusOr<Fence> FromWire(const v1::Fence& wire);
Row FromWire(const v1::Row& wire);
v1::Fence ToWire(const Fence& fence);

absl::StatusOr<input::Sync> SyncFromWire(const v1::SyncRequest& request, NodeId node);
absl::StatusOr<input::Report> ReportFromWire(const v1::ReportRequest& request, NodeId node);
absl::StatusOr<input::CommitCheckpoint> CommitFromWire(const v1::CommitCheckpointRequest& request,
                                                       NodeId node);
absl::StatusOr<KeptOutputs> OutputsFromWire(const v1::KeepOutputsRequest& request);
void FillReply(const SyncReply& from, v1::SyncReply* reply);
void FillReply(const std::vector<ReportVerdict>& from, v1::ReportReply* reply);

// InvalidArgument "NAME is N bytes; at most M are allowed".
absl::Status CheckSize(std::string_view name, size_t bytes, size_t bytes_max);

// "keep", "retry" or "restart": the action for ended trials when their search is resumed.
absl::StatusOr<input::ResumeExperiment::TrialAction> TrialActionFrom(const std::string& name);

}  // namespace rt
