#include "head/service/results_dir.h"

#include "common/base/status.h"

namespace rt {
namespace {

absl::Status Refused(const absl::Status& why) {
  return SpecError("results_dir", MessageOf(why), HintOf(why));
}

std::string WithSuffix(const std::string& name, int suffix) {
  return name + "-" + std::to_string(suffix);
}

// The suffix to try first. Whoever submits thousands of experiments of one name shall not wait
// until each of the names is found to be taken: it looks at 2, 4, 8 and so on, and halves the last
// step.
int FirstSuffix(const Folder& folder, const std::string& name) {
  const auto is_taken = [&](int suffix) { return folder.Find(WithSuffix(name, suffix)).ok(); };
  int free = 2;
  while (is_taken(free)) free *= 2;
  int taken = free / 2;
  while (free - taken > 1) {
    const int middle = taken + (free - taken) / 2;
    (is_taken(middle) ? taken : free) = middle;
  }
  return free;
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
  if (absl::IsAlreadyExists(made)) {
    for (int suffix = FirstSuffix(*folder, spec.name); absl::IsAlreadyExists(made); ++suffix) {
      name = WithSuffix(spec.name, suffix);
      made = folder->Make(name);
    }
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
