#include "common/cas/codec.h"

#include <zstd.h>

#include "common/base/check.h"

namespace rt {
namespace {

constexpr int kLevel = 1;
constexpr size_t kSampleBytes = 64u << 10;
constexpr size_t kBytesMin = 256;  // Below, a record's header outweighs what could be won.

bool Pays(size_t compressed, size_t bytes) { return compressed * 100 <= bytes * 97; }

std::string Compress(std::string_view bytes) {
  std::string compressed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(compressed.data(), compressed.size(), bytes.data(),
                                    bytes.size(), kLevel);
  RT_CHECK(!ZSTD_isError(size));
  compressed.resize(size);
  return compressed;
}

}  // namespace

std::optional<std::string> CompressIfItPays(std::string_view bytes) {
  if (bytes.size() < kBytesMin) return std::nullopt;
  if (bytes.size() > 4 * kSampleBytes) {
    size_t compressed = 0;
    for (size_t quarter : {bytes.size() / 4, bytes.size() / 4 * 3 - kSampleBytes})
      compressed += Compress(bytes.substr(quarter, kSampleBytes)).size();
    if (!Pays(compressed, 2 * kSampleBytes)) return std::nullopt;
  }
  std::string compressed = Compress(bytes);
  if (!Pays(compressed.size(), bytes.size())) return std::nullopt;
  return compressed;
}

absl::StatusOr<std::string> Decompress(std::string_view compressed, size_t size) {
  std::string bytes(size, '\0');
  const size_t got = ZSTD_decompress(bytes.data(), bytes.size(), compressed.data(),
                                     compressed.size());
  if (ZSTD_isError(got) || got != size)
    return absl::DataLossError("compressed bytes that do not decompress to what they were");
  return bytes;
}

}  // namespace rt
