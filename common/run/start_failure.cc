#include "common/run/start_failure.h"

#include <unistd.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {
constexpr Bytes kBytesMax = 64 << 10;
std::string FileOf(const std::string& state_dir) { return state_dir + "/failed"; }
}  // namespace

void NoteStartFailure(const std::string& state_dir, const absl::Status& why) {
  if (!Exists(state_dir)) return;
  const Json note = Json::MakeObject(
      {{"message", ValidUtf8(MessageOf(why))}, {"hint", ValidUtf8(HintOf(why))}});
  absl::Status written = WriteFileAtomic(FileOf(state_dir), note.Dump() + "\n");
  if (!written.ok()) {
    RT_LOG(kWarning) << MessageOf(written);
  }
}

void ClearStartFailure(const std::string& state_dir) { ::unlink(FileOf(state_dir).c_str()); }

absl::Status ReadStartFailure(const std::string& state_dir) {
  absl::StatusOr<std::string> text = ReadFile(FileOf(state_dir), kBytesMax);
  if (!text.ok()) return absl::OkStatus();
  absl::StatusOr<Json> note = Json::Parse(*text);
  if (!note.ok()) return absl::OkStatus();
  return WithHint(absl::InternalError(ToAbsl(note->GetString("message"))),
                  note->GetString("hint"));
}

}  // namespace rt
