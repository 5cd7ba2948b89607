#include "cli/render/error.h"

#include <fstream>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// Whether the line has a key that every experiment file, or every cluster file, has.
bool NamesSpec(std::string_view line) {
  const size_t start = line.find_first_not_of(" \t{\"'\xef\xbb\xbf");
  if (start == std::string_view::npos) return false;
  line.remove_prefix(start);
  for (const std::string_view key : {"cluster_name", "experiment"}) {
    if (!line.starts_with(key)) continue;
    const size_t next = line.find_first_not_of(" \"'", key.size());
    if (next != std::string_view::npos && line[next] == ':') return true;
  }
  return false;
}

// The line at the position, of a cluster's or an experiment's file. Others are not quoted: `rt
// submit` may have been given a private key by mistake, or a file that only sudo can read.
std::string LineOf(const Position& position) {
  std::ifstream file(position.file);
  std::string line, wanted;
  bool is_spec = false;
  for (int i = 1; (i <= position.line || !is_spec) && std::getline(file, line); ++i) {
    if (i == position.line) wanted = line;
    is_spec = is_spec || NamesSpec(line);
  }
  return is_spec ? wanted : "";
}

std::string CodeText(const absl::Status& status) {
  return absl::StatusCodeToString(status.code());
}

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json OrNull(int number) { return number == 0 ? Json() : Json(number); }

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  if (absl::IsInvalidArgument(status)) return kExitUsage;
  if (absl::IsNotFound(status)) return kExitNotFound;
  if (absl::IsUnavailable(status)) return kExitUnreachable;
  if (absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status)) return kExitDenied;
  if (absl::IsDeadlineExceeded(status)) return kExitTimeout;
  return kExitFailed;
}

std::string RenderError(const absl::Status& status, const Invocation& invocation) {
  Position position = PositionOf(status);
  std::string message = MessageOf(status), hint = HintOf(status);
  if (invocation.output == Output::kJson) {
    Json error = Json::MakeObject({{"code", CodeText(status)}, {"message", message},
                                   {"hint", OrNull(hint)}, {"file", OrNull(position.file)},
                                   {"line", OrNull(position.line)},
                                   {"column", OrNull(position.column)}});
    return EscapeControl(Json::MakeObject({{"error", std::move(error)}}).Dump()) + "\n";
  }
  const char* red = invocation.color ? "\x1b[31m" : "";
  const char* plain = invocation.color ? "\x1b[0m" : "";
  std::string text;
  if (position.line == 0) {
    text = std::string(red) + "rt: " + plain + EscapeControl(message) + "\n";
  } else {
    text = position.file + ":" + std::to_string(position.line) + ":" +
           std::to_string(position.column) + ": " + red + EscapeControl(message) + plain + "\n";
    std::string line = LineOf(position);
    if (!line.empty()) {
      size_t column = static_cast<size_t>(std::max(1, position.column));
      text += "  " + EscapeControl(ValidUtf8(line)) + "\n  " + std::string(column - 1, ' ') + "^\n";
    }
  }
  if (!hint.empty()) text += "hint: " + EscapeControl(hint) + "\n";
  return text;
}

}  // namespace rt
