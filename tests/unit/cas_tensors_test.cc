#include <catch2/catch.hpp>

#include "common/base/rng.h"
#include "common/cas/tensors.h"

using namespace rt;

namespace {

constexpr Bytes kKiB = 1'024;

ReadAt Of(const std::string& file) {
  return [&file](Bytes offset, Bytes size, std::string& bytes) {
    const auto have = static_cast<Bytes>(file.size());
    if (offset < 0 || size < 0 || offset > have || size > have - offset) return false;
    bytes = file.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
    return true;
  };
}

std::string Little(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string SafeTensorsFile(const std::string& metadata, const std::vector<Bytes>& sizes) {
  std::string header = "{\"__metadata__\":{\"m\":\"" + metadata + "\"}";
  Bytes at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    header += ",\"t" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[" +
              std::to_string(sizes[i]) + "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + sizes[i]) + "]}";
    at += sizes[i];
  }
  header += "}";
  return Little(header.size()) + header + std::string(static_cast<size_t>(at), 'd');
}

// Without holes or overlaps, each at most as long as a chunk may be.
void CheckCover(const std::vector<ChunkSpan>& spans, Bytes file_bytes) {
  Bytes at = 0;
  for (const ChunkSpan& span : spans) {
    CHECK(span.offset == at);
    CHECK(span.size > 0);
    CHECK(span.size <= Bytes{limits::kChunkBytes});
    at += span.size;
  }
  CHECK(at == file_bytes);
}

}  // namespace

TEST_CASE("tensors: a safetensors file is cut at its tensors, its header apart") {
  const std::string file = SafeTensorsFile("", {300 * kKiB, 10 * kKiB, 5'000 * kKiB});
  const auto size = static_cast<Bytes>(file.size());
  auto tensors = FindTensors(Of(file), size);
  REQUIRE(tensors.size() == 3);
  auto spans = CutAtTensors(tensors, size);
  CheckCover(spans, size);
  REQUIRE(spans.size() == 5);
  CHECK(spans[1] == ChunkSpan{tensors[0].offset, 300 * kKiB});
  CHECK(spans[2].size == 10 * kKiB);
  CHECK(spans[3].size == Bytes{limits::kChunkBytes});
}

TEST_CASE("tensors: a header that grows moves the cuts and nothing else") {
  const std::vector<Bytes> sizes = {300 * kKiB, 1, 2, 70 * kKiB, 9'000 * kKiB, 3 * kKiB, 5 * kKiB};
  auto cut = [&](const std::string& metadata) {
    const std::string file = SafeTensorsFile(metadata, sizes);
    const auto size = static_cast<Bytes>(file.size());
    auto tensors = FindTensors(Of(file), size);
    auto spans = CutAtTensors(tensors, size);
    std::vector<Bytes> behind;
    for (const ChunkSpan& span : spans)
      if (span.offset >= tensors[0].offset) behind.push_back(span.size);
    return behind;
  };
  CHECK(cut("") == cut(std::string(1'000, 'm')));
}

TEST_CASE("tensors: small neighbours share chunks") {
  const std::string file = SafeTensorsFile("", std::vector<Bytes>(2'000, 500));
  const auto size = static_cast<Bytes>(file.size());
  auto spans = CutAtTensors(FindTensors(Of(file), size), size);
  CheckCover(spans, size);
  CHECK(spans.size() < 12);
  CHECK(SmallTensorBytes(1) == 64 * kKiB);
  CHECK(SmallTensorBytes(Bytes{2} << 30) == 1'024 * kKiB);
  CHECK(SmallTensorBytes(Bytes{1} << 50) == Bytes{limits::kChunkBytes});
}

TEST_CASE("tensors: whatever is odd has none") {
  const std::string good = SafeTensorsFile("", {300 * kKiB, 300 * kKiB});
  auto find = [](const std::string& file) {
    return FindTensors(Of(file), static_cast<Bytes>(file.size())).size();
  };
  REQUIRE(find(good) == 2);
  CHECK(find(good.substr(0, good.size() - 1)) == 0);
  CHECK(find("") == 0);
  CHECK(find(std::string(400'000, '\0')) == 0);
  CHECK(find("PK\3\4" + std::string(400'000, 'x')) == 0);
  CHECK(find("PK\3\4" + std::string(400'000, 'x') + "PK\5\6" + std::string(18, '\xff')) == 0);
  CHECK(find(Little(200'000) + "{" + std::string(400'000, 'x')) == 0);
  CHECK(find(Little(~0ull) + "{" + std::string(400'000, 'x')) == 0);
  for (const char* header :
       {R"({"a":{"data_offsets":[0,200],"x":1},"b":{"data_offsets":[100,300]}})",
        R"({"a":{"data_offsets":[-1,200]}})", R"({"a":{"data_offsets":[200,100]}})",
        R"({"a":{"data_offsets":[0,9223372036854775807]}})", R"({"a":{"data_offsets":["0",1]}})",
        R"({"a":{"data_offsets":[0]}})", R"([])", R"({"a":{"data_offsets":[0,9000000]}})"})
    CHECK(find(Little(std::string_view(header).size()) + header + std::string(400'000, 'x')) == 0);
}

TEST_CASE("tensors: any damage to a file leaves cuts that cover it") {
  const std::string good = SafeTensorsFile("m", {300 * kKiB, 10, 20, 70 * kKiB});
  Rng rng(1);
  for (int i = 0; i < 3'000; ++i) {
    std::string file = good;
    for (int changes = 0; changes < 3; ++changes)
      file[rng.Below(300)] = static_cast<char>(rng.Next());
    const auto size = static_cast<Bytes>(file.size());
    Bytes covered = 0;
    for (const ChunkSpan& span : CutAtTensors(FindTensors(Of(file), size), size))
      covered += span.size;
    REQUIRE(covered == size);
  }
}
