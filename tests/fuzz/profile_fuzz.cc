// Any JSON as a profile line of an elastic trial: what a daemon takes, alone and merged with the
// same again, is a profile that the head takes.
#include <string_view>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/limits_elastic.h"
#include "worker/session/profile_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto line = rt::Json::Parse(text);
  if (!line.ok() || !line->is_object()) return 0;
  rt::worker::ProfileQueue queue;
  const bool is_taken = queue.AddLine(*line).ok();
  RT_CHECK(queue.Next().has_value() == is_taken);
  if (!is_taken) return 0;
  const rt::ElasticProfile sent = queue.Next()->profile;
  RT_CHECK(rt::CheckProfile(sent).ok());
  rt::ElasticProfile merged = sent;
  rt::MergeProfile(merged, sent, rt::limits::kProfilePointsMax);
  RT_CHECK(rt::CheckProfile(merged).ok());
  return 0;
}
