// What a driver inside a job may ask, as JSON: the operations of the services under other names.
// docs/protocol.md, "driver operations", lists them with their fields. Answers always:
//   {"ok":true,"result":…} or {"ok":false,"error":{"code","message","hint"}}
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
  JobId job;
  std::string owner;  // The user who submitted the job.
};

// `done` gets the answer's JSON; its status is always OK.
void RunDriverOp(const DriverTools& tools, const Driver& driver, const std::string& json,
                 JsonDone done);

Json DriverAnswer(const absl::StatusOr<Json>& result);

}  // namespace rt
