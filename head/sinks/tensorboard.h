// TensorBoard's event files: TFRecords of Event messages, encoded by hand because a scalar is a
// dozen bytes and comes with every row. Scalars by tag and step, and what the HParams page shows.
// Format: event.proto and summary.proto of TensorFlow, plugin_data.proto of TensorBoard's hparams.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/experiment_spec.h"
#include "head/core/events.h"

namespace rt::tensorboard {

// "events.out.tfevents.1700000000.rt": the same for a run whenever it is written.
std::string FileName(Millis created_at);

// The first record of every file.
std::string Header(Millis at);
// One event with a scalar per number among `cells` (flat; a metric's name is its tag). What rt
// counts for itself (process ids, wall clocks) is left out. Empty when there is no number.
std::string Scalars(Millis at, int64_t step, const Json::Object& cells);
// A run's configuration, flattened; and its end.
std::string SessionStart(Millis at, const std::string& group, const Json& params);
std::string SessionEnd(Millis at, TrialEnd end);
// In the root run: which parameters vary, and which metric is looked at.
std::string Experiment(Millis at, const ExperimentSpec& spec);

}  // namespace rt::tensorboard
