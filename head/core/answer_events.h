// The facts about what people, drivers and algorithms decide about searches and trials. Part of
// events.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "head/core/facts.h"

namespace rt::event {

// From here on none of its trials runs: live attempts are suspended (they save and end), no trial
// is created, and its time budget does not run.
struct ExperimentPaused {
  ExperimentId experiment;
  std::string reason;
  RT_FIELDS(ExperimentPaused, experiment, reason);
};
struct ExperimentResumed {
  ExperimentId experiment;
  RT_FIELDS(ExperimentResumed, experiment);
};
// It may make more trials or take more time than its spec says; both are the new totals.
struct ExperimentExtended {
  ExperimentId experiment;
  int64_t num_samples = 0;
  Millis time_budget = 0;  // 0: none.
  RT_FIELDS(ExperimentExtended, experiment, num_samples, time_budget);
};
// It was finishing or finished, and is open again. Its time budget did not run meanwhile.
struct ExperimentReopened {
  ExperimentId experiment;
  std::string trainable;  // The manifest that its trials unpickle from now on; empty: as before.
  bool retries_only = false;  // The search stays finished: only retried trials run.
  RT_FIELDS(ExperimentReopened, experiment, trainable, retries_only);
};
// A row had a value for this key of a stop rule, or for the scheduler's time attribute, for the
// first time in the experiment.
struct StopKeyReported {
  ExperimentId experiment;
  std::string key;
  RT_FIELDS(StopKeyReported, experiment, key);
};
// It does not run until TrialResumed; a live attempt is suspended.
struct TrialPaused {
  TrialId trial;
  PauseCause cause = PauseCause::kNone;
  std::string reason;
  RT_FIELDS(TrialPaused, trial, cause, reason);
};
struct TrialResumed {
  TrialId trial;
  RT_FIELDS(TrialResumed, trial);
};
// A trial that was paused for a change of its resources has ended its attempt. It waits for nodes
// again, and its next attempt has these resources.
struct TrialReallocated {
  TrialId trial;
  std::string resources;         // JSON; empty: as its experiment says.
  std::string normal_resources;  // As in TrialCreated.
  uint32_t spec_format = 0;
  RT_FIELDS(TrialReallocated, trial, resources, normal_resources, spec_format);
};
// It had ended and waits for nodes again. Its failures are forgiven, and it resumes from its newest
// checkpoint.
struct TrialRetried {
  TrialId trial;
  RT_FIELDS(TrialRetried, trial);
};
// A driver is there to answer what the experiment asks; an earlier session's answers are refused.
struct DriverAttached {
  ExperimentId experiment;
  uint64_t session = 0;  // Counts from 1 within the experiment.
  std::string driver;    // What the process calls itself: the same one asks for the same session.
  RT_FIELDS(DriverAttached, experiment, session, driver);
};
// The driver has answered everything that the journal says of the experiment up to the record
// `observed_through`; what it decided are the events that follow in the same batch.
// Since Answered exists no head writes this event.
struct DriverAnswered {
  ExperimentId experiment;
  uint64_t session = 0;
  uint64_t observed_through = 0;
  RT_FIELDS(DriverAnswered, experiment, session, observed_through);
};
// The driver's search has no more configurations to suggest. Since Answered exists no head writes
// this event.
struct SearchFinished {
  ExperimentId experiment;
  RT_FIELDS(SearchFinished, experiment);
};

// An algorithm has answered: a search algorithm or scheduler of the head, or a driver. It had read
// the records of its experiment up to `observed_through`. The trials are created, stopped, paused,
// resumed and cloned in this order, as by TrialCreated, TrialStopRequested, TrialPaused (by a
// scheduler) and TrialResumed. A clone gets the named checkpoint as its own newest one, and its
// live attempt ends: nothing that it reports or saves from here on counts (docs/adr/0033).
struct Answered {
  ExperimentId experiment;
  std::string algorithm;  // "driver": what the user wrote in Python.
  uint32_t version = 0;
  uint64_t observed_through = 0;
  std::vector<CreatedTrial> created;
  std::vector<StoppedTrial> stopped;
  std::vector<SuspendedTrial> paused;
  std::vector<uint32_t> resumed;
  uint64_t session = 0;   // The driver's, as by DriverAnswered; 0: an algorithm of the head.
  bool finished = false;  // As by SearchFinished.
  // Of the created and cloned trials: those that its model, or the driver, left out.
  std::vector<FallbackTrial> fallbacks;
  std::vector<ClonedTrial> cloned;
  // They are cloned by the answer of the driver that has read this record.
  std::vector<AskedClone> asked;
  std::vector<AllocatedTrial> allocated;
  RT_FIELDS(Answered, experiment, algorithm, version, observed_through, created, stopped, paused,
            resumed, session, finished, fallbacks, cloned, asked, allocated);
};

}  // namespace rt::event
