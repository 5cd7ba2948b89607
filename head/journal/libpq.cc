#include "head/journal/libpq.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/run/shared_object.h"

namespace rt {
namespace {

absl::StatusOr<LibPq> Load() {
  RT_ASSIGN_OR_RETURN(SharedObject object, SharedObject::Open("libpq.so.5", "libpq5"));
  LibPq pq;
#define RT_PQ_FUNCTION(name) RT_RETURN_IF_ERROR(object.Bind(pq.name, #name));
  RT_PQ_FUNCTIONS(RT_PQ_FUNCTION)
#undef RT_PQ_FUNCTION
  return pq;
}

}  // namespace

absl::StatusOr<const LibPq*> OpenLibPq() {
  static const absl::StatusOr<LibPq> loaded = Load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

const LibPq& Pq() {
  absl::StatusOr<const LibPq*> pq = OpenLibPq();
  RT_CHECK(pq.ok());
  return **pq;
}

}  // namespace rt
