#include "cli/elastic_trace.h"

#include <charconv>
#include <filesystem>
#include <set>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kFileMax = Bytes{16} << 20;  // The longest table of Pollux has 60 KB.
constexpr char kValidation[] = "validation-";

uint32_t NumberOf(std::string_view text) {
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

absl::Status ReadBounds(const fs::path& path, std::map<std::string, ApplicationTexts>& texts) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string(), kFileMax));
  RT_ASSIGN_OR_RETURN(const auto rows, ReadCsv(path.string(), text, 4));
  for (const std::vector<std::string>& row : rows) {
    const auto found = texts.find(row[0]);
    if (found == texts.end()) continue;
    found->second.local_max = NumberOf(row[1]);
    found->second.fixed_batch = NumberOf(row[2]);
    found->second.ranks_max = NumberOf(row[3]);
  }
  return absl::OkStatus();
}

absl::Status ReadTables(const fs::path& folder, ApplicationTexts& texts) {
  RT_ASSIGN_OR_RETURN(texts.placements, ReadFile((folder / "placements.csv").string(), kFileMax));
  std::error_code error;
  if (fs::exists(folder / "sizes.csv", error)) {
    RT_ASSIGN_OR_RETURN(texts.sizes, ReadFile((folder / "sizes.csv").string(), kFileMax));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kValidation, 0) != 0) continue;
    const uint32_t batch = NumberOf(std::string_view(name).substr(sizeof(kValidation) - 1));
    if (batch == 0) continue;
    RT_ASSIGN_OR_RETURN(texts.validations[batch], ReadFile(entry.path().string(), kFileMax));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ElasticTrace> ReadElasticTrace(const std::string& path) {
  ElasticTrace trace;
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kFileMax));
  RT_ASSIGN_OR_RETURN(trace.workload, ReadWorkload(path, text));
  const fs::path folder = fs::absolute(path).parent_path().parent_path();
  std::map<std::string, ApplicationTexts> texts;
  for (const ReplaySubmission& one : trace.workload) {
    if (one.application.find('/') != std::string::npos || one.application.empty())
      return Invalid(path + ": an application cannot be called '" + Excerpt(one.application) + "'");
    texts[one.application].name = one.application;
  }
  RT_RETURN_IF_ERROR(ReadBounds(folder / "applications.csv", texts));
  for (auto& [name, one] : texts) {
    if (const absl::Status read = ReadTables(folder / "traces" / name, one); !read.ok())
      return WithHint(Annotate(read, "the measurements of " + name),
                      "put the measurements of each application into traces/NAME, next to the "
                      "folder of the trace");
    RT_ASSIGN_OR_RETURN(MeasuredApplication application, MeasuredApplication::Parse(one));
    trace.applications.emplace(name, std::move(application));
  }
  return trace;
}

}  // namespace rt
