// Any bytes as a journal's record, rows or snapshot: refused, or read to what is written again as
// the same value.
#include "common/base/check.h"
#include "head/journal/codec.h"

namespace {

template <class T, class Encode, class Decode>
void RoundTrip(std::string_view bytes, Encode encode, Decode decode) {
  absl::StatusOr<T> value = decode(bytes);
  if (!value.ok()) return;
  const std::string written = encode(*value);
  absl::StatusOr<T> again = decode(written);
  RT_CHECK(again.ok());
  // By its bytes: a NaN is not equal to itself.
  RT_CHECK(encode(*again) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      RoundTrip<rt::Record>(bytes, rt::EncodeRecord, rt::DecodeRecord);
      break;
    case 1:
      RoundTrip<rt::RowBatch>(bytes, rt::EncodeRows, rt::DecodeRows);
      break;
    default:
      RoundTrip<rt::State>(bytes, rt::EncodeState, rt::DecodeState);
  }
  return 0;
}
