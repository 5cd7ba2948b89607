#include "cli/bring_home.h"

#include <cstdio>

#include "cli/client/nouns.h"
#include "cli/download/download.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kLinesMax = 20;

// `own`: the directory into which the head itself writes results.
void Tell(const std::string& name, const std::string& own,
          const absl::StatusOr<Downloaded>& downloaded, BroughtHome& home) {
  if (!downloaded.ok()) {
    home.missing.push_back(name + ": " + MessageOf(downloaded.status()));
    return;
  }
  if (downloaded->files > 0 && downloaded->directory != own)
    home.said.push_back("the results of " + name + " are in " + downloaded->directory);
  for (const std::string& gone : downloaded->gone) home.said.push_back(name + ": lost: " + gone);
  for (const std::string& missing : downloaded->missing)
    home.missing.push_back(name + ": " + missing);
}

bool HasOutputs(const Json& job) {
  const Json* outputs = job.Find("outputs");
  return job.GetBool("outputs_pending") || (outputs != nullptr && outputs->is_object());
}

}  // namespace

BroughtHome BringHome(HeadClient& client, const HomeWish& wish) {
  BroughtHome home;
  const DownloadPlace place{.directory = "", .results_root = wish.results_root};
  for (uint64_t id : wish.experiments) {
    std::string name = "experiment " + std::to_string(id);
    absl::StatusOr<Json> experiment = GetExperiment(client, id);
    if (!experiment.ok()) {
      Tell(name, "", experiment.status(), home);
      continue;
    }
    name += " (" + EscapeControl(experiment->GetString("name")) + ")";
    Tell(name, experiment->GetString("results_dir"), DownloadExperiment(client, *experiment, place),
         home);
  }
  for (uint64_t id : wish.jobs) {
    std::string name = "job " + std::to_string(id);
    absl::StatusOr<Json> job = GetJob(client, id);
    if (!job.ok()) {
      Tell(name, "", job.status(), home);
      continue;
    }
    if (!wish.job_output && !HasOutputs(*job)) continue;
    name += " (" + EscapeControl(job->GetString("name")) + ")";
    Tell(name, "", DownloadJob(client, *job, place), home);
  }
  return home;
}

void SayLines(const std::string& before, const std::vector<std::string>& lines) {
  for (size_t i = 0; i < lines.size() && i < kLinesMax; ++i)
    std::fprintf(stderr, "rt: %s%s\n", before.c_str(), EscapeControl(lines[i]).c_str());
  if (lines.size() > kLinesMax)
    std::fprintf(stderr, "rt: %sand %zu more\n", before.c_str(), lines.size() - kLinesMax);
}

}  // namespace rt
