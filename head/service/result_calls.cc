#include "head/service/result_calls.h"

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/service/result_files.h"
#include "head/view/view.h"

namespace rt {
namespace {

constexpr size_t kTrialsPerPage = 500;  // About 400 KiB of answer.

struct Places {
  std::string root;
  std::vector<std::string> directories;  // Below it; "" is the root itself.
  uint32_t next = 0;
};

// Where the results of the experiment's trials from `from` on lie.
absl::StatusOr<Places> FindPlaces(const Core& core, ExperimentId id, uint32_t from,
                                  size_t trials_max) {
  const auto& all = core.world.state.experiments;
  if (id.value == 0 && !all.empty()) id = all.rbegin()->first;
  auto found = all.find(id);
  if (found == all.end()) return NotFound("there is no experiment " + std::to_string(id.value));
  const Experiment& experiment = found->second;
  const ExperimentIndex& index = core.world.index.experiments.at(id);
  Places places{.root = experiment.results_dir, .directories = {}, .next = 0};
  if (from == 0) places.directories.emplace_back();
  for (uint32_t number = from; number < experiment.trials.size(); ++number) {
    if (number - from == trials_max) {
      places.next = number;
      break;
    }
    places.directories.push_back(
        TrialDirectory(experiment, index, number).substr(places.root.size() + 1));
  }
  return places;
}

// `done` runs on the io pool with what was found, or at once with the error.
void WithPlaces(Edge& edge, ExperimentId id, uint32_t from, size_t trials_max, StatusDone done,
                std::function<absl::Status(const Places&)> use) {
  auto places = std::make_shared<Places>();
  auto view = [=](const Core& core, const HeadFacts&) -> absl::StatusOr<Json> {
    RT_ASSIGN_OR_RETURN(*places, FindPlaces(core, id, from, trials_max));
    return Json();
  };
  edge.operations.Ask(view, [&edge, places, use = std::move(use),
                             done = std::move(done)](const absl::StatusOr<Json>& seen) {
    if (!seen.ok()) return done(seen.status());
    edge.io([places, use, done] { done(use(*places)); });
  });
}

void Fill(const ResultFile& file, v1::ResultFile& message) {
  message.set_path(file.path);
  message.set_bytes(file.bytes);
  message.set_modified_ns(file.modified_ns);
  message.set_serial(file.serial);
}

}  // namespace

void ListResults(Edge& edge, const v1::ListResultsRequest& request, v1::ListResultsReply& reply,
                 StatusDone done) {
  WithPlaces(edge, {request.experiment()}, request.from(), kTrialsPerPage, std::move(done),
             [&edge, &reply](const Places& places) -> absl::Status {
               reply.set_next(places.next);
               const absl::StatusOr<Folder> root = edge.settings.roots.Find(places.root);
               if (absl::IsNotFound(root.status())) return absl::OkStatus();
               if (!root.ok()) return root.status();
               for (const std::string& directory : places.directories) {
                 RT_ASSIGN_OR_RETURN(std::vector<ResultFile> files,
                                     ListResultFiles(*root, directory));
                 for (const ResultFile& file : files) Fill(file, *reply.add_files());
               }
               return absl::OkStatus();
             });
}

void ReadResult(Edge& edge, const v1::ReadResultRequest& request, v1::ReadResultReply& reply,
                StatusDone done) {
  WithPlaces(edge, {request.experiment()}, 0, 0, std::move(done),
             [&edge, &request, &reply](const Places& places) -> absl::Status {
               RT_ASSIGN_OR_RETURN(const Folder root, edge.settings.roots.Find(places.root));
               RT_ASSIGN_OR_RETURN(ResultPiece piece,
                                   ReadResultFile(root, request.path(), request.offset(),
                                                  limits::kStreamPieceBytes));
               Fill(piece.file, *reply.mutable_file());
               reply.set_data(std::move(piece.data));
               return absl::OkStatus();
             });
}

}  // namespace rt
