// The facts about executors. Part of events.h.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "head/core/facts.h"

namespace rt::event {

// A driver's session wants an executor: it waits for a node from here on.
struct ExecutorRequested {
  ExecutorId executor;
  std::string owner;         // The user.
  std::string session;       // As its driver called it,
  AttemptId opener;          // and the attempt that the driver is part of; no owner: it is outside.
  std::string request_key;   // Within the session; executors of one request have the same.
  std::string normal_spec;   // JSON: common/spec/executor_spec.h.
  uint32_t spec_format = 0;  // As in JobSubmitted.
  RT_FIELDS(ExecutorRequested, executor, owner, session, opener, request_key, normal_spec,
            spec_format);
};
// It is to end: its driver, its session's end or a person says so.
struct ExecutorReleaseRequested {
  ExecutorId executor;
  std::string reason;
  RT_FIELDS(ExecutorReleaseRequested, executor, reason);
};
// Its processes failed too fast: the next one is not placed before `until`. 0: that time has come.
struct ExecutorDelayed {
  ExecutorId executor;
  Millis until = 0;
  RT_FIELDS(ExecutorDelayed, executor, until);
};
struct ExecutorEnded {
  ExecutorId executor;
  ExecutorEnd end = ExecutorEnd::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  ErrorInfo error;  // What the constructor of a detached actor raised.
  RT_FIELDS(ExecutorEnded, executor, end, exit_code, signal, reason, error);
};

}  // namespace rt::event
