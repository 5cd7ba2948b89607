// What a driver may ask, as JSON: the operations of the services under other names. Inside a job, a
// trial or an executor it comes through the worker, outside through `rt bridge`. Trials and
// executors may use only a part of them: what tasks need. docs/protocol.md, "driver
// operations", lists them with their fields.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/cas/blob_store.h"
#include "head/service/operations.h"

namespace rt {

struct DriverTools {
  Operations& operations;
  BlobStore& blobs;
  const Io& io;
};
struct Driver {
  JobId job;          // 0: it is outside of jobs.
  std::string owner;  // The user who submitted the job, or who calls.
  AttemptId opener;   // Of the job, trial or executor that it is part of; no owner: it is outside.
};

void StartDriverOp(const DriverTools& tools, const Driver& driver, const std::string& json,
                   JsonDone done);
// The same, but `done` gets {"ok":true,"result":…} or {"ok":false,"error":{"code","message",
// "hint"}}, and its status is always OK.
void RunDriverOp(const DriverTools& tools, const Driver& driver, const std::string& json,
                 JsonDone done);

Json DriverAnswer(const absl::StatusOr<Json>& result);

}  // namespace rt
