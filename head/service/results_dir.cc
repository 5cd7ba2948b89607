#include "head/service/results_dir.h"

#include "common/base/status.h"

namespace rt {
namespace {

absl::Status Refused(const absl::Status& why) {
  return SpecError("results_dir", MessageOf(why), HintOf(why));
}

}  // namespace

absl::StatusOr<std::string> ReserveResultsDir(const ExperimentSpec& spec,
                                              const ResultRoots& roots) {
  std::string parent = roots.results_root();
  if (!spec.results_dir.empty()) {
    absl::StatusOr<std::string> allowed = roots.Resolve(spec.results_dir);
    if (!allowed.ok()) return Refused(allowed.status());
    parent = *std::move(allowed);
  }
  const absl::StatusOr<Folder> folder = roots.Open(parent);
  if (!folder.ok()) return Refused(folder.status());
  std::string name = spec.name;
  absl::Status made = folder->Make(name);
  for (int suffix = 2; absl::IsAlreadyExists(made); ++suffix) {
    name = spec.name + "-" + std::to_string(suffix);
    made = folder->Make(name);
  }
  if (!made.ok()) return Refused(made);
  return folder->path() + "/" + name;
}

void ReleaseResultsDir(const std::string& path, const ResultRoots& roots) {
  const size_t slash = path.rfind('/');
  const absl::StatusOr<Folder> parent = roots.Find(path.substr(0, slash == 0 ? 1 : slash));
  if (parent.ok()) parent->RemoveEmpty(path.substr(slash + 1));
}

}  // namespace rt
