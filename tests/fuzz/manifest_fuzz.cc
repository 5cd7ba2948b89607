// Any text as a manifest: refused, or canonical (it is written again as the same bytes), with every
// path and link inside.
#include "common/base/check.h"
#include "common/cas/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto manifest = rt::ParseManifest(text);
  if (!manifest.ok()) return 0;
  for (const rt::ManifestEntry& entry : manifest->entries) {
    RT_CHECK(rt::CheckRelativePath(entry.path).ok());
    if (entry.kind == rt::ManifestEntry::Kind::kLink)
      RT_CHECK(rt::CheckLinkTarget(entry.path, entry.target).ok());
  }
  auto written = rt::FormatManifest(*manifest);
  RT_CHECK(written.ok() && *written == text);
  return 0;
}
