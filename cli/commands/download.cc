// `rt exp download`, `rt trial checkpoint`, and what a foreground submit brings home at its end.
#include "cli/download/download.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/bring_home.h"
#include "cli/commands/acting.h"
#include "cli/commands/submit.h"
#include "cli/download/tree_download.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/remote_store.h"
#include "common/run/files.h"

namespace rt {
namespace {

Json LinesJson(const std::vector<std::string>& lines) {
  Json list = Json::MakeArray();
  for (const std::string& line : lines) list.Append(line);
  return list;
}

Json DownloadedItem(const Json& experiment, const Downloaded& downloaded) {
  Json item = ActedItem(experiment.GetInt("id"), "experiment", experiment.GetString("state"));
  item.Set("directory", downloaded.directory);
  item.Set("files", downloaded.files);
  item.Set("bytes", downloaded.bytes);
  item.Set("missing", LinesJson(downloaded.missing));
  item.Set("lost", LinesJson(downloaded.gone));
  return item;
}

void SayDownloaded(uint64_t id, const Downloaded& downloaded) {
  if (downloaded.files > 0)
    std::fprintf(stderr, "experiment %llu: %zu files, %s, fetched into %s\n",
                 static_cast<unsigned long long>(id), downloaded.files,
                 BytesText(downloaded.bytes).c_str(), downloaded.directory.c_str());
  else
    std::fprintf(stderr, "experiment %llu: %s has everything\n",
                 static_cast<unsigned long long>(id), downloaded.directory.c_str());
}

// The value of the experiment's metric in the row that the checkpoint came with.
std::optional<double> ScoreOf(const Json& checkpoint, const std::string& metric) {
  const Json* row = checkpoint.Find("metrics");
  const Json* value = row == nullptr ? nullptr : FindFlat(*row, metric);
  if (value == nullptr || !value->HasDouble() || std::isnan(value->AsDouble())) return std::nullopt;
  return value->AsDouble();
}

absl::StatusOr<Json> BestCheckpoint(HeadClient& client, TrialId trial,
                                    const Json::Array& checkpoints) {
  RT_ASSIGN_OR_RETURN(Json experiment, GetExperiment(client, trial.experiment.value));
  const std::string metric = experiment.GetString("metric");
  if (metric.empty())
    return Invalid("experiment " + std::to_string(trial.experiment.value) +
                       " has no metric to compare by", "choose one with --id");
  const bool maximise = experiment.GetString("mode") == "max";
  const Json* best = nullptr;
  for (const Json& one : checkpoints) {
    const std::optional<double> score = ScoreOf(one, metric);
    if (!score.has_value()) continue;
    const double so_far = best == nullptr ? *score : *ScoreOf(*best, metric);
    if (best == nullptr || (maximise ? *score >= so_far : *score <= so_far)) best = &one;
  }
  if (best == nullptr) return NotFound("no checkpoint came with '" + metric + "'");
  return *best;
}

absl::StatusOr<Json> ChooseCheckpoint(HeadClient& client, const Invocation& invocation,
                                      TrialId id) {
  RT_ASSIGN_OR_RETURN(Json trial, GetTrial(client, id));
  const Json* kept = trial.Find("checkpoints");
  if (kept == nullptr || !kept->is_array() || kept->array().empty())
    return NotFound("trial " + ToString(id) + " has no checkpoint");
  if (invocation.best) return BestCheckpoint(client, id, kept->array());
  if (invocation.checkpoint_id == 0) return kept->array().back();
  std::vector<std::string> known;
  for (const Json& one : kept->array()) {
    if (one.GetInt("id") == invocation.checkpoint_id) return one;
    known.push_back(std::to_string(one.GetInt("id")));
  }
  return NotFound("trial " + ToString(id) + " keeps no checkpoint " +
                      std::to_string(invocation.checkpoint_id), "it keeps " + Join(known, ", "));
}

// A directory that cannot be made is a failure of this command, not a missing result.
absl::Status MakeTarget(const std::string& directory) {
  const absl::Status made = EnsureDirectory(directory, 0755);
  if (!absl::IsNotFound(made)) return made;
  return absl::FailedPreconditionError(ToAbsl("cannot " + MessageOf(made)));
}

absl::Status FetchInto(HeadClient& client, const Json& checkpoint, const std::string& target) {
  RemoteStore store(client.BulkChannel());
  const std::vector<std::string> manifests = ManifestsOf(checkpoint);
  std::error_code error;
  const bool taken = Exists(target) && !std::filesystem::is_empty(target, error);
  if (!taken) {
    RT_RETURN_IF_ERROR(MakeTarget(std::filesystem::path(target).parent_path().string()));
    return FetchTrees(store, manifests, target).status();
  }
  RT_ASSIGN_OR_RETURN(const bool same, HoldsTrees(store, manifests, target));
  if (same) return absl::OkStatus();  // The command is repeated.
  return WithHint(absl::FailedPreconditionError(ToAbsl(target + " holds something else")),
                  "name a directory that is empty or not there");
}

}  // namespace

ExitCode RunExperimentDownload(const Invocation& invocation) {
  if (invocation.words.size() > 2)
    return Invalid("one experiment and one directory", "rt exp download 3 results/");
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, FirstWord(invocation)));
  DownloadPlace place{.directory = "", .results_root = ResultsRoot()};
  if (invocation.words.size() == 2) place.directory = AbsolutePath(invocation.words[1]);
  if (chosen.size() > 1 && !place.directory.empty())
    return Invalid("a directory holds the results of one experiment",
                   "leave it out, or choose one experiment");
  if (!place.directory.empty()) RT_RETURN_IF_ERROR(MakeTarget(place.directory));
  Json::Array items;
  absl::Status first_error;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json experiment, GetExperiment(*client, id));
    RT_ASSIGN_OR_RETURN(Downloaded downloaded, DownloadExperiment(*client, experiment, place));
    if (invocation.output == Output::kTable) SayDownloaded(id, downloaded);
    SayLines("lost: ", downloaded.gone);
    SayLines("not downloaded: ", downloaded.missing);
    if (first_error.ok()) first_error = downloaded.first_error;
    items.push_back(DownloadedItem(experiment, downloaded));
  }
  PrintActed(invocation, "download", std::move(items));
  if (first_error.ok()) return kExitOk;
  return Annotate(first_error, "not everything was downloaded");
}

ExitCode RunTrialCheckpoint(const Invocation& invocation) {
  if (invocation.words.empty() || invocation.words.size() > 2)
    return Invalid("whose checkpoint?", "rt trial checkpoint 3/1 [DIR]");
  if (invocation.best && invocation.checkpoint_id != 0)
    return Invalid("--best and --id exclude each other");
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, invocation.words[0]));
  if (chosen.size() != 1) return Invalid("the checkpoint of one trial", "rt trial checkpoint 3/1");
  RT_ASSIGN_OR_RETURN(Json listed, ChooseCheckpoint(*client, invocation, chosen[0]));
  RT_ASSIGN_OR_RETURN(Json checkpoint, AwaitStored(*client, chosen[0], listed));
  const std::string target = AbsolutePath(
      invocation.words.size() == 2 ? invocation.words[1] : CheckpointName(checkpoint));
  RT_RETURN_IF_ERROR(FetchInto(*client, checkpoint, target));
  if (invocation.output == Output::kTable) std::puts(target.c_str());
  Json item = ActedItem(ToString(chosen[0]), "trial", "DOWNLOADED");
  item.Set("checkpoint", checkpoint["id"]);
  item.Set("step", checkpoint["step"]);
  item.Set("directory", target);
  PrintActed(invocation, "checkpoint", {std::move(item)});
  return kExitOk;
}

bool BringSubmittedHome(const Home& home, const std::string& cluster,
                        const Attendance& attendance) {
  absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, cluster);
  HomeWish wish{.experiments = {}, .jobs = {}, .results_root = ResultsRoot()};
  absl::Status known = client.status();
  if (known.ok() && attendance.experiment != 0) wish.experiments.push_back(attendance.experiment);
  if (known.ok() && attendance.job != 0) {
    wish.jobs.push_back(attendance.job);
    absl::StatusOr<Json> job = GetJob(**client, attendance.job);
    known = job.status();
    const Json* made = job.ok() ? job->Find("experiment_ids") : nullptr;
    if (made != nullptr && made->is_array())
      for (const Json& id : made->array())
        if (id.is_int()) wish.experiments.push_back(static_cast<uint64_t>(id.AsInt()));
  }
  if (!known.ok()) {
    SayLines("not brought home: ", {MessageOf(known)});
    return false;
  }
  const BroughtHome brought = BringHome(**client, wish);
  SayLines("", brought.said);
  SayLines("not brought home: ", brought.missing);
  return brought.missing.empty();
}

}  // namespace rt
