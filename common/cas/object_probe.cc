#include "common/base/status.h"
#include "common/cas/object_store.h"
#include "common/run/random.h"

namespace rt {

absl::Status ProbeObjects(ObjectStore& store) {
  const std::string key = "probe/" + RandomHex(16), text = "rt was here";
  RT_RETURN_IF_ERROR(store.PutIfAbsent(key, text));
  absl::Status again = store.PutIfAbsent(key, text);
  auto bytes = store.Get(key);
  auto listed = store.List(key, "", 2);
  RT_RETURN_IF_ERROR(store.Delete(key));
  if (!absl::IsAlreadyExists(again))
    return WithHint(
        absl::FailedPreconditionError(ToAbsl(
            "the object store replaces what a conditional write (If-None-Match: *) must leave "
            "alone, or refuses it: " +
            (again.ok() ? "it answered OK" : MessageOf(again)))),
        "use a service that knows conditional writes: AWS S3, MinIO, Ceph, R2");
  RT_RETURN_IF_ERROR(bytes.status());
  RT_RETURN_IF_ERROR(listed.status());
  if (*bytes != text || listed->size() != 1)
    return absl::FailedPreconditionError("the object store does not show what was just written");
  return absl::OkStatus();
}

}  // namespace rt
