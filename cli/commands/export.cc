// `rt exp export`: all trials, or every report of every trial, as CSV or JSON on standard output.
// Nothing is held in memory but one page: what CSV needs to know first, the columns, is found out
// while the rows go to an unnamed file.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "cli/commands/common.h"
#include "cli/render/csv.h"
#include "common/base/status.h"

namespace rt {
namespace {

using Take = std::function<absl::Status(Json row)>;

// A trial on one level: params and metrics under prefixes, the rest by name.
Json FlatTrial(const Json& trial) {
  Json flat = Json::MakeObject();
  for (const auto& [key, value] : trial.object()) {
    bool grouped = key == "params" || key == "metrics" || key == "best";
    if (!grouped) {
      flat.Set(key, value);
      continue;
    }
    if (!value.is_object()) continue;
    const Json inners = Flatten(value);
    for (const auto& [name, inner] : inners.object())
      if (key != "metrics" || !name.starts_with("config/")) flat.Set(key + "/" + name, inner);
  }
  return flat;
}

absl::Status EachRow(HeadClient& client, const Json& trial, const Take& take) {
  std::optional<TrialId> id = ParseTrialId(trial.GetString("id"));
  if (!id.has_value()) return absl::InternalError("a trial without an id");
  v1::ReadRowsRequest request;
  *request.mutable_trial() = RefOf(*id);
  request.set_after_iteration(-1);
  bool more = true;
  while (more) {
    RT_ASSIGN_OR_RETURN(Json reply, client.Ask<v1::ExperimentService>(
                                        &v1::ExperimentService::Stub::ReadRows, request));
    Json* rows = reply.Find("rows");
    if (rows == nullptr || !rows->is_array()) return absl::InternalError("rows without a list");
    more = reply.GetBool("more") && !rows->array().empty();
    request.set_after(reply.GetString("next"));
    // A head of an older release has no `next`.
    if (more && request.after().empty())
      request.set_after_iteration(rows->array().back().GetDouble("training_iteration"));
    for (Json& row : rows->array()) RT_RETURN_IF_ERROR(take(std::move(row)));
  }
  return absl::OkStatus();
}

absl::Status EachRecord(HeadClient& client, uint64_t experiment, bool rows, const Take& take) {
  return EachTrialPage(client, experiment, [&](Json::Array& items) {
    for (Json& trial : items)
      RT_RETURN_IF_ERROR(rows ? EachRow(client, trial, take) : take(std::move(trial)));
    return absl::OkStatus();
  });
}

absl::Status Write(std::FILE* file, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size())
    return ErrnoStatus(errno, "write");
  return absl::OkStatus();
}

absl::Status ExportJson(HeadClient& client, uint64_t experiment, bool rows) {
  RT_RETURN_IF_ERROR(Write(stdout, "{\"schema\":1,\"items\":["));
  bool first = true;
  RT_RETURN_IF_ERROR(EachRecord(client, experiment, rows, [&](Json record) {
    std::string text = (first ? "\n" : ",\n") + record.Dump();
    first = false;
    return Write(stdout, text);
  }));
  return Write(stdout, "\n],\"next\":null}\n");
}

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status ExportCsv(HeadClient& client, uint64_t experiment, bool rows) {
  std::unique_ptr<std::FILE, Closer> kept(std::tmpfile());
  if (kept == nullptr) return ErrnoStatus(errno, "a file for the rows");
  std::vector<std::string> columns;
  std::set<std::string> known;
  RT_RETURN_IF_ERROR(EachRecord(client, experiment, rows, [&](Json record) {
    Json flat = rows ? Flatten(record) : FlatTrial(record);
    for (const auto& [name, value] : flat.object())
      if (known.insert(name).second) columns.push_back(name);
    return Write(kept.get(), flat.Dump() + "\n");
  }));
  std::rewind(kept.get());
  RT_RETURN_IF_ERROR(Write(stdout, CsvHeader(columns)));
  char* line = nullptr;
  size_t room = 0;
  absl::Status status = absl::OkStatus();
  for (ssize_t size; status.ok() && (size = getline(&line, &room, kept.get())) > 0;) {
    absl::StatusOr<Json> row = Json::Parse({line, static_cast<size_t>(size)});
    status = row.ok() ? Write(stdout, CsvRow(columns, *row)) : row.status();
  }
  std::free(line);
  return status;
}

}  // namespace

ExitCode RunExperimentExport(const Invocation& invocation) {
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "one experiment at a time", "rt exp export last"));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("one experiment at a time", "rt exp export last");
  bool json = invocation.format == "json" ||
              (invocation.format.empty() && invocation.output == Output::kJson);
  RT_RETURN_IF_ERROR((json ? ExportJson : ExportCsv)(*client, chosen[0], invocation.rows));
  return kExitOk;
}

}  // namespace rt
