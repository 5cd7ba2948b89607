// rt.v1 messages <-> the worker's own structs.
#pragma once

#include "rt/v1/worker.pb.h"
#include "worker/core/worker_core.h"
#include "worker/launch/launch_body.h"
#include "worker/loop/kept_outputs.h"
#include "worker/session/spool.h"

namespace rt::worker {

void ToWire(const Owner& owner, v1::Owner* wire);
void ToWire(const AttemptId& attempt, v1::AttemptId* wire);
void ToWire(const Fence& fence, v1::Fence* wire);
void ToWire(const SpoolRow& row, v1::Row* wire);
// Of the paths the first, as many as the head takes.
void ToWire(const SentOutputs& outputs, v1::KeepOutputsRequest* wire);
Fence FromWire(const v1::Fence& wire);

}  // namespace rt::worker
