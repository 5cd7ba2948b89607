#include "common/run/libcurl.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/run/shared_object.h"

namespace rt {
namespace {

absl::StatusOr<LibCurl> Load() {
  RT_ASSIGN_OR_RETURN(SharedObject object, SharedObject::Open("libcurl.so.4", "libcurl4"));
  LibCurl curl;
#define RT_CURL_FUNCTION(name) RT_RETURN_IF_ERROR(object.Bind(curl.name, "curl_" #name));
  RT_CURL_FUNCTIONS(RT_CURL_FUNCTION)
#undef RT_CURL_FUNCTION
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return absl::FailedPreconditionError("libcurl does not start");
  }
  return curl;
}

}  // namespace

absl::StatusOr<const LibCurl*> OpenLibCurl() {
  static const absl::StatusOr<LibCurl> loaded = Load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

const LibCurl& Curl() {
  absl::StatusOr<const LibCurl*> curl = OpenLibCurl();
  RT_CHECK(curl.ok());
  return **curl;
}

}  // namespace rt
