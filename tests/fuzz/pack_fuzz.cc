// Any bytes as a record, a pack's index, a pack to scan, and a file with tensors: refused, or
// within bounds.
#include "common/base/check.h"
#include "common/cas/digest.h"
#include "common/cas/pack.h"
#include "common/cas/tensors.h"

using rt::Bytes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bytes = static_cast<Bytes>(size);
  auto whole = [&](const rt::PackEntry& entry) {
    RT_CHECK(entry.offset >= 0 && entry.stored_bytes >= 0 && entry.bytes >= 0 &&
             entry.offset <= bytes - entry.record_bytes() && rt::IsDigest(entry.digest));
    (void)rt::DecodeRecord(entry.digest, text.substr(static_cast<size_t>(entry.offset),
                                                     static_cast<size_t>(entry.record_bytes())));
  };
  if (auto needed = rt::IndexBytes(text, bytes); needed.ok()) {
    auto index = rt::ParseIndex(text.substr(size - static_cast<size_t>(*needed)), bytes);
    if (index.ok())
      for (const rt::PackEntry& entry : *index) whole(entry);
  }
  for (const rt::PackEntry& entry : rt::ScanPack(text)) whole(entry);
  (void)rt::DecodeRecord(rt::Digest("x"), text);

  // As a file with so many zeros in its middle that it is large enough to be looked at.
  auto read = [&](Bytes offset, Bytes count, std::string& out) {
    const Bytes file = bytes + (256 << 10);
    if (offset < 0 || count < 0 || offset > file || count > file - offset) return false;
    out.assign(static_cast<size_t>(count), '\0');
    for (Bytes i = 0; i < count; ++i) {
      // Its first half in front, its second at the end: headers and directories meet both.
      const Bytes at = offset + i, half = bytes / 2;
      if (at < half) out[static_cast<size_t>(i)] = text[static_cast<size_t>(at)];
      if (at >= file - (bytes - half))
        out[static_cast<size_t>(i)] = text[static_cast<size_t>(at - (256 << 10))];
    }
    return true;
  };
  const Bytes file = bytes + (256 << 10);
  Bytes covered = 0;
  for (const rt::ChunkSpan& span : rt::CutAtTensors(rt::FindTensors(read, file), file)) {
    RT_CHECK(span.offset == covered && span.size > 0);
    covered += span.size;
  }
  RT_CHECK(covered == file);
  return 0;
}
