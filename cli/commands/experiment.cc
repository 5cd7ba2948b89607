// `rt exp show`, `rt exp best`, `rt exp stop`.
#include <cstdio>

#include "cli/commands/acting.h"
#include "cli/render/best.h"
#include "common/base/status.h"

namespace rt {
namespace {

constexpr size_t kShownBest = 10;

absl::StatusOr<BestTrials> BestOf(HeadClient& client, const Json& experiment, size_t most) {
  BestTrials best(experiment.GetString("mode") == "max", most);
  uint64_t id = static_cast<uint64_t>(experiment.GetInt("id"));
  RT_RETURN_IF_ERROR(EachTrialPage(client, id, [&](Json::Array& items) {
    for (const Json& trial : items) best.Add(trial);
    return absl::OkStatus();
  }));
  return best;
}

// The trials that no other one beats in all objectives.
ExitCode PrintFront(const Invocation& invocation, const Json& experiment,
                    const FrontTrials& front) {
  const uint64_t id = static_cast<uint64_t>(experiment.GetInt("id"));
  if (front.empty())
    return NotFound("no trial of experiment " + std::to_string(id) +
                    " reported all objectives and keeps the constraints yet");
  if (invocation.output == Output::kQuiet)
    for (const Json& trial : front.Front()) std::puts(trial.GetString("id").c_str());
  if (invocation.output == Output::kTable) std::fputs(front.Render().c_str(), stdout);
  const std::optional<double> volume = front.Hypervolume();
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject({{"experiment_id", id},
                                {"objectives", *experiment.Find("objectives")},
                                {"front", Json(front.Front())},
                                {"hypervolume", volume ? Json(*volume) : Json()},
                                {"reference", front.Worst()}}));
  return kExitOk;
}

// Its fields, what early stopping did at each rung, and the best trials.
absl::Status PrintExperiment(HeadClient& client, const Json& experiment) {
  Json fields = experiment;
  for (const char* key : {"spec", "rungs", "best", "population", "allocation", "search_model"})
    fields.Erase(key);
  if (const Json* warnings = fields.Find("warnings"); warnings && warnings->array().empty())
    fields.Erase("warnings");
  std::fputs(RenderDetails(fields).c_str(), stdout);
  if (const Json* rungs = experiment.Find("rungs"))
    if (std::string text = RenderRungs(*rungs); !text.empty())
      std::printf("\nearly stopping by rung\n%s", text.c_str());
  if (const Json* model = experiment.Find("search_model"))
    if (std::string text = RenderBelief(*model, experiment.GetString("metric")); !text.empty())
      std::printf("\nwhat the search model expects\n%s", text.c_str());
  if (const Json* allocation = experiment.Find("allocation"))
    if (std::string text = RenderAllocation(*allocation); !text.empty())
      std::printf("\nranks over time\n%s", text.c_str());
  if (const Json* population = experiment.Find("population"))
    if (std::string text = RenderPopulation(*population); !text.empty())
      std::printf("\nthe population\n%s", text.c_str());
  RT_ASSIGN_OR_RETURN(std::optional<FrontTrials> front, FrontOf(client, experiment));
  if (front.has_value()) {
    if (std::string text = front->Render(); !text.empty())
      std::printf("\nthe front\n%s", text.c_str());
    return absl::OkStatus();
  }
  RT_ASSIGN_OR_RETURN(BestTrials best, BestOf(client, experiment, kShownBest));
  if (std::string text = best.Render(experiment.GetString("metric")); !text.empty())
    std::printf("\nthe best trials\n%s", text.c_str());
  return absl::OkStatus();
}

}  // namespace

ExitCode RunExperimentShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetExperiment(*client, id));
    items.push_back(std::move(item));
  }
  if (invocation.output != Output::kTable)
    return PrintItems(invocation, Noun::kExperiment, std::move(items));
  for (const Json& item : items) RT_RETURN_IF_ERROR(PrintExperiment(*client, item));
  return kExitOk;
}

ExitCode RunExperimentBest(const Invocation& invocation) {
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "the best of one experiment", "rt exp best last"));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("the best of one experiment", "rt exp best last");
  RT_ASSIGN_OR_RETURN(Json experiment, GetExperiment(*client, chosen[0]));
  std::string metric = experiment.GetString("metric");
  if (metric.empty())
    return NotFound("experiment " + std::to_string(chosen[0]) + " has no metric to compare by");
  RT_ASSIGN_OR_RETURN(std::optional<FrontTrials> front, FrontOf(*client, experiment));
  if (front.has_value()) return PrintFront(invocation, experiment, *front);
  size_t most = invocation.limit > 0 ? static_cast<size_t>(invocation.limit) : 1;
  RT_ASSIGN_OR_RETURN(BestTrials best, BestOf(*client, experiment, most));
  const Json* constraints = experiment.Find("constraints");
  const bool is_bounded = constraints != nullptr && !constraints->is_null();
  if (best.trials().empty())
    return NotFound("no trial reported '" + metric + "'" +
                    (is_bounded ? " and keeps the constraints yet" : " yet"));
  if (invocation.output == Output::kQuiet)
    for (const Json& trial : best.trials()) std::puts(trial.GetString("id").c_str());
  if (invocation.output == Output::kTable) std::fputs(best.Render(metric).c_str(), stdout);
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject({{"experiment_id", experiment["id"]},
                                {"metric", metric},
                                {"mode", experiment["mode"]},
                                {"best", experiment["best"]},
                                {"trials", Json(best.trials())}}));
  return kExitOk;
}

ExitCode RunExperimentStop(const Invocation& invocation) {
  const Action stop{"stop", "rt exp stop 3", "is stopping", true};
  return ActOnExperiments(invocation, stop, [&](HeadClient& client, uint64_t id) {
    v1::StopRequest request;
    request.set_experiment(id);
    request.set_reason(invocation.reason);
    return client.Call<v1::ExperimentService>(&v1::ExperimentService::Stub::Stop, request)
        .status();
  });
}

}  // namespace rt
