#include "worker/checkpoint/taken.h"

#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kRowBytesMax = 1 << 20;

}  // namespace

std::string TakenPathOf(const LiveAttempt& attempt, uint64_t seq) {
  return attempt.dir().saved() + "/" + std::to_string(seq);
}

uint64_t DoneOf(const LiveAttempt& attempt) {
  auto text = ReadFile(attempt.dir().saved() + "/done", 64);
  return text.ok() ? std::strtoull(text->c_str(), nullptr, 10) : 0;
}

std::string ReplicaNote(const std::string& directory) { return directory + "/held"; }

StoredTree ReadReplicaNote(const std::string& directory) {
  StoredTree tree;
  auto text = ReadFile(ReplicaNote(directory), 256);
  const size_t space = text.ok() ? text->find(' ') : std::string::npos;
  if (space == std::string::npos) return tree;
  tree.manifest = text->substr(0, space);
  tree.bytes = std::strtoll(text->c_str() + space, nullptr, 10);
  return tree;
}

Bytes BytesBelow(const std::string& path) {
  Bytes bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(path, error))
    if (entry.is_regular_file(error)) bytes += static_cast<Bytes>(entry.file_size(error));
  return bytes;
}

absl::StatusOr<Json> ReadNote(const std::string& directory) {
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(directory + "/row.json", kRowBytesMax));
  return Json::Parse(text);
}

}  // namespace rt::worker
