// The functions of libcurl that common/run/http.cc uses, opened at run time.
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace rt {

#define RT_CURL_FUNCTIONS(X)                                                                   \
  X(easy_cleanup) X(easy_getinfo) X(easy_init) X(easy_perform) X(easy_reset) X(easy_setopt)    \
  X(easy_strerror) X(getdate) X(global_init) X(slist_append) X(slist_free_all)
struct LibCurl {
#define RT_CURL_FUNCTION(name) decltype(&::curl_##name) name = nullptr;
  RT_CURL_FUNCTIONS(RT_CURL_FUNCTION)
#undef RT_CURL_FUNCTION
};
// Opens it once, for good. FailedPrecondition: it is not there, with what to install.
absl::StatusOr<const LibCurl*> OpenLibCurl();
// After OpenLibCurl has succeeded.
const LibCurl& Curl();

}  // namespace rt
