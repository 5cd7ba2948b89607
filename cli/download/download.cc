#include "cli/download/download.h"

#include <cstdio>

#include "cli/client/local_cluster.h"
#include "cli/client/nouns.h"
#include "cli/download/download_parts.h"
#include "cli/download/log_download.h"
#include "cli/download/tree_download.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/manifest.h"
#include "common/cas/parallel.h"
#include "common/rpc/remote_store.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr size_t kTrialsAtOnce = 8;
constexpr char kCheckpointsFile[] = "/.rt-checkpoints.json";  // As the Python package reads them.
constexpr char kSearchFile[] = "/.rt-search.json";

const Json::Array& ItemsOf(const Json& object, const char* key) {
  static const Json::Array none;
  const Json* found = object.Find(key);
  return found != nullptr && found->is_array() ? found->array() : none;
}

Json ValueOf(const Json& object, const char* key) {
  const Json* found = object.Find(key);
  return found == nullptr ? Json() : *found;
}


// What a trial that is over had when it was downloaded: as long as this is the same, nothing of it
// has changed.
std::string VersionOf(const Json& trial) {
  if (!IsTerminal(trial.GetString("state"))) return "";
  return trial.GetString("state") + " " + std::to_string(trial.GetInt("attempt")) + " " +
         std::to_string(trial.GetInt("reports")) + " " + trial.GetString("ended_at");
}

class ExperimentDownload {
 public:
  ExperimentDownload(HeadClient& client, const Json& experiment, DownloadLog& log, bool in_place)
      : client_(client), experiment_(experiment), log_(log), in_place_(in_place),
        store_(client.BulkChannel()), tally_(log.directory()) {}

  absl::StatusOr<Downloaded> Run() {
    const uint64_t id = static_cast<uint64_t>(experiment_.GetInt("id"));
    if (!in_place_)
      if (absl::Status files = DownloadResultFiles(client_, id, log_, tally_); !files.ok())
        tally_.Missing("result files", files);
    RT_RETURN_IF_ERROR(EachTrialPage(client_, id, [&](Json::Array& trials) {
      return ForEachParallel(trials.size(), kTrialsAtOnce,
                             [&](size_t i) { return TakeTrial(trials[i]); });
    }));
    RT_RETURN_IF_ERROR(WriteSearch());
    RT_RETURN_IF_ERROR(log_.Save());
    RT_RETURN_IF_ERROR(SyncFileSystem(log_.directory()));
    return tally_.Take();
  }

 private:
  // The trial's directory, relative to the experiment's.
  absl::StatusOr<std::string> PlaceOf(const Json& trial) const {
    const std::string own = trial.GetString("results_dir");
    const std::string root = experiment_.GetString("results_dir") + "/";
    if (!own.starts_with(root)) return absl::InternalError("a trial outside of its experiment");
    std::string relative = own.substr(root.size());
    RT_RETURN_IF_ERROR(CheckRelativePath(relative));
    return relative;
  }

  absl::Status TakeTrial(const Json& trial) {
    const std::string name = "trial " + trial.GetString("id");
    absl::StatusOr<std::string> place = PlaceOf(trial);
    if (!place.ok()) {
      tally_.Missing(name, place.status());
      return absl::OkStatus();
    }
    Summarise(trial, *place);
    const std::string version = VersionOf(trial);
    if (!version.empty() && HasAll(*place, version)) return absl::OkStatus();
    bool whole = true;
    auto miss = [&](const std::string& what, const absl::Status& status) {
      whole = whole && status.ok();
      if (!status.ok()) tally_.Missing(name + what, status);
    };
    miss("", TakeDetails(trial, *place, miss));
    if (whole) log_.Note(DoneMark(*place), version);
    RT_RETURN_IF_ERROR(log_.SaveSometimes());
    return client_.cancelled() ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

  // Noted as absent: no file has such a name.
  static std::string DoneMark(const std::string& place) { return place + "/.rt-whole"; }

  bool HasAll(const std::string& place, const std::string& version) const {
    if (!log_.Has(DoneMark(place), version)) return false;
    for (const std::string& path : log_.Below(place + "/"))
      if (!log_.IsIntact(path)) return false;
    return true;
  }

  template <class Miss>
  absl::Status TakeDetails(const Json& item, const std::string& place, const Miss& miss) {
    const std::optional<TrialId> id = ParseTrialId(item.GetString("id"));
    if (!id.has_value()) return absl::InternalError("a trial without an id");
    RT_ASSIGN_OR_RETURN(Json trial, GetTrial(client_, *id));
    const std::string directory = log_.directory() + "/" + place;
    RT_RETURN_IF_ERROR(CheckNoLink(log_.directory(), place + "/"));
    RT_RETURN_IF_ERROR(EnsureDirectory(directory, 0755));
    auto logs = DownloadLogs(client_, Owner::Of(*id), ValueOf(trial, "attempts"), log_, place);
    miss(": output", logs.status());
    if (logs.ok()) {
      tally_.Fetched(logs->files, logs->bytes);
      for (const std::string& gone : logs->gone)
        tally_.Gone("trial " + ToString(*id) + ": " + gone);
    }
    RT_RETURN_IF_ERROR(TakeCheckpoints(*id, trial, place, miss));
    auto ask = [&] { return GetTrial(client_, *id); };
    miss(": what it wrote", DownloadOutputs({client_, store_, log_, tally_}, ask, std::move(trial),
                                            "trial " + ToString(*id), place + "/outputs"));
    return RemoveParts(directory);
  }

  template <class Miss>
  absl::Status TakeCheckpoints(TrialId id, const Json& trial, const std::string& place,
                               const Miss& miss) {
    Json rows = Json::MakeObject();
    std::set<std::string> kept;
    for (const Json& listed : ItemsOf(trial, "checkpoints")) {
      const std::string path = place + "/" + CheckpointName(listed);
      absl::Status taken = [&]() -> absl::Status {
        RT_ASSIGN_OR_RETURN(Json checkpoint, AwaitStored(client_, id, listed));
        return DownloadTrees(store_, ManifestsOf(checkpoint), log_, path, tally_);
      }();
      miss(": checkpoint " + std::to_string(listed.GetInt("id")), taken);
      kept.insert(path);
      if (taken.ok()) rows.Set(CheckpointName(listed), ValueOf(listed, "step"));
    }
    // Those that were retired since.
    for (const std::string& path : log_.Below(place + "/checkpoint_")) {
      if (kept.contains(path)) continue;
      RT_RETURN_IF_ERROR(RemoveTree(log_.directory() + "/" + path));
      log_.Forget(path);
    }
    if (kept.empty()) return absl::OkStatus();
    return WriteFileAtomic(log_.directory() + "/" + place + kCheckpointsFile, rows.Dump(),
                           {.mode = 0644, .sync = false});
  }

  void Summarise(const Json& trial, const std::string& place) {
    std::lock_guard lock(mutex_);
    summaries_[static_cast<uint64_t>(trial.GetInt("number"))] =
        Json::MakeObject({{"directory", place},
                          {"id", trial.GetString("id")},
                          {"state", trial.GetString("state")},
                          {"failures", trial.GetInt("failures")},
                          {"has_row", !ValueOf(trial, "metrics").is_null()}});
  }

  // So that ExperimentAnalysis and Tuner.restore find the search there when its cluster is gone.
  absl::Status WriteSearch() const {
    Json trials = Json::MakeArray();
    for (const auto& [number, summary] : summaries_)
      if (Exists(log_.directory() + "/" + summary.GetString("directory") + "/params.json"))
        trials.Append(summary);
    const Json spec = ValueOf(experiment_, "spec");
    const Json found = Json::MakeObject({{"state", ValueOf(experiment_, "state")},
                                         {"metric", ValueOf(experiment_, "metric")},
                                         {"mode", ValueOf(experiment_, "mode")},
                                         {"objectives", ValueOf(experiment_, "objectives")},
                                         {"constraints", ValueOf(experiment_, "constraints")},
                                         {"trainable", ValueOf(spec, "trainable")},
                                         {"space", ValueOf(experiment_, "space")},
                                         {"trials", std::move(trials)}});
    return WriteFileAtomic(log_.directory() + kSearchFile, found.Dump(),
                           {.mode = 0644, .sync = false});
  }

  HeadClient& client_;
  const Json& experiment_;
  DownloadLog& log_;
  const bool in_place_;  // The head writes its result files there itself.
  RemoteStore store_;
  DownloadTally tally_;
  std::mutex mutex_;
  std::map<uint64_t, Json> summaries_;  // By the trial's number.
};

absl::StatusOr<std::unique_ptr<DownloadLog>> MakeAndOpen(const std::string& directory,
                                                         const DownloadSource& source) {
  RT_RETURN_IF_ERROR(EnsureDirectory(directory, 0755));
  // In this order: another download that has just begun writes its log before anything else.
  if (!IsFreeForDownload(directory) && !Exists(directory + "/.rt-download.json"))
    return WithHint(absl::FailedPreconditionError(ToAbsl(directory + " is not empty")),
                    "name a directory that is empty, or that a download made");
  return DownloadLog::Open(directory, source);
}

// The directory, made, with its log. `name` was chosen by another user of the cluster.
absl::StatusOr<std::unique_ptr<DownloadLog>> Prepare(const DownloadPlace& place,
                                                     const std::string& root, std::string name,
                                                     const DownloadSource& source) {
  const bool is_plain = CheckRelativePath(name).ok() && name.find('/') == std::string::npos;
  if (!is_plain || name[0] == '.') name = source.kind + "-" + std::to_string(source.id);
  if (!place.directory.empty()) return MakeAndOpen(place.directory, source);
  constexpr int kTriesMax = 1'000;
  for (int tries = 1;; ++tries) {  // Another command may take the free directory meanwhile.
    absl::StatusOr<std::unique_ptr<DownloadLog>> log =
        MakeAndOpen(FreeDownloadDirectory(root, name, source), source);
    if (!absl::IsFailedPrecondition(log.status()) || tries == kTriesMax) return log;
  }
}

}  // namespace

std::string CheckpointName(const Json& checkpoint) {
  char name[32];  // The head counts from 1 all that were ever committed.
  std::snprintf(name, sizeof name, "checkpoint_%06lld",
                static_cast<long long>(checkpoint.GetInt("id") - 1));
  return name;
}

std::vector<std::string> ManifestsOf(const Json& checkpoint) {
  std::vector<std::string> manifests;
  for (const Json& part : ItemsOf(checkpoint, "parts"))
    if (part.is_string()) manifests.push_back(part.AsString());
  manifests.push_back(checkpoint.GetString("manifest"));  // Of one name rank 0's file stays.
  return manifests;
}

absl::StatusOr<Json> AwaitStored(HeadClient& client, TrialId trial, const Json& checkpoint) {
  const Millis deadline = SteadyClock() + kDownloadWaitMax;
  Json found = checkpoint;
  while (true) {
    const std::string durability = found.GetString("durability", "DURABLE");
    if (durability == "DURABLE") return found;
    if (durability == "LOST") return absl::DataLossError("the nodes that hold it are lost");
    if (SteadyClock() > deadline || client.cancelled())
      return absl::DeadlineExceededError("the nodes that hold it have not brought it to the store");
    SleepFor(200);
    RT_ASSIGN_OR_RETURN(Json now, GetTrial(client, trial));
    bool is_kept = false;
    for (const Json& one : ItemsOf(now, "checkpoints")) {
      if (one.GetInt("id") != checkpoint.GetInt("id")) continue;
      found = one;
      is_kept = true;
    }
    if (!is_kept) return NotFound("it is not kept any more");
  }
}

absl::StatusOr<Downloaded> DownloadExperiment(HeadClient& client, const Json& experiment,
                                              const DownloadPlace& place) {
  const Context context = client.context();
  const DownloadSource source{context.cluster_id, "experiment",
                              static_cast<uint64_t>(experiment.GetInt("id"))};
  const std::string own = experiment.GetString("results_dir");
  const bool here = !context.local_directory.empty();
  const bool in_place = here && (place.directory.empty() || place.directory == own);
  std::unique_ptr<DownloadLog> log;
  if (in_place) {
    if (!Exists(own)) {  // By somebody who wants none of it.
      Downloaded nothing;
      nothing.directory = own;
      nothing.gone.push_back("its results directory " + own + " was removed");
      return nothing;
    }
    RT_ASSIGN_OR_RETURN(log, DownloadLog::Open(own, source));
  } else {
    RT_ASSIGN_OR_RETURN(log, Prepare(place, place.results_root, experiment.GetString("name"),
                                     source));
  }
  return ExperimentDownload(client, experiment, *log, in_place).Run();
}

absl::StatusOr<Downloaded> DownloadJob(HeadClient& client, const Json& job,
                                       const DownloadPlace& place) {
  const JobId id{static_cast<uint64_t>(job.GetInt("id"))};
  const DownloadSource source{client.context().cluster_id, "job", id.value};
  RT_ASSIGN_OR_RETURN(auto log, Prepare(place, place.results_root + "/jobs",
                                        job.GetString("name"), source));
  DownloadTally tally(log->directory());
  auto logs = DownloadLogs(client, Owner::Of(id), ValueOf(job, "attempts"), *log, "");
  if (!logs.ok()) {
    tally.Missing("its output", logs.status());
  } else {
    tally.Fetched(logs->files, logs->bytes);
    for (const std::string& gone : logs->gone) tally.Gone(gone);
  }
  RemoteStore store(client.BulkChannel());
  auto ask = [&] { return GetJob(client, id.value); };
  absl::Status taken = DownloadOutputs({client, store, *log, tally}, ask, job, "", "outputs");
  if (!taken.ok()) tally.Missing("what it wrote", taken);
  RT_RETURN_IF_ERROR(RemoveParts(log->directory()));
  if (tally.is_whole() && !Exists(log->directory() + "/stdout") &&
      !Exists(log->directory() + "/stderr") && !Exists(log->directory() + "/outputs")) {
    RT_RETURN_IF_ERROR(RemoveTree(log->directory()));  // It said nothing and wrote nothing.
    return tally.Take();
  }
  RT_RETURN_IF_ERROR(log->Save());
  RT_RETURN_IF_ERROR(SyncFileSystem(log->directory()));
  return tally.Take();
}

}  // namespace rt
