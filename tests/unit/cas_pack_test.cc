#include <catch2/catch.hpp>

#include "common/base/rng.h"
#include "common/cas/digest.h"
#include "common/cas/pack.h"

using namespace rt;

namespace {

std::string Noise(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes;
  while (bytes.size() < size) bytes += static_cast<char>(rng.Next());
  return bytes;
}

std::vector<std::string> Samples() {
  return {"", "x", std::string(100'000, 'a'), Noise(5'000, 1), Noise(600'000, 2),
          Noise(300'000, 3) + std::string(300'000, '\0')};
}

std::string PackOf(const std::vector<std::string>& chunks, std::vector<PackEntry>& entries) {
  PackBuilder builder;
  for (const std::string& chunk : chunks) builder.Add(Digest(chunk), chunk);
  entries = builder.entries();
  return builder.Finish();
}

std::string_view Tail(std::string_view pack, Bytes size) {
  return pack.substr(pack.size() - static_cast<size_t>(size));
}

}  // namespace

TEST_CASE("codec: only what shrinks is compressed") {
  CHECK(!CompressIfItPays(Noise(1 << 20, 7)).has_value());
  CHECK(!CompressIfItPays(Noise(2'000, 7)).has_value());
  CHECK(!CompressIfItPays("short").has_value());
  const std::string zeros(1 << 20, '\0');
  auto compressed = CompressIfItPays(zeros);
  REQUIRE(compressed.has_value());
  CHECK(compressed->size() < 1'000);
  CHECK(*Decompress(*compressed, zeros.size()) == zeros);
  CHECK(absl::IsDataLoss(Decompress(*compressed, zeros.size() - 1).status()));
  CHECK(absl::IsDataLoss(Decompress(*compressed, zeros.size() + 1).status()));
  CHECK(absl::IsDataLoss(Decompress("nonsense", 10).status()));
}

TEST_CASE("record: reads back, and every changed byte is noticed") {
  for (const std::string& bytes : Samples()) {
    const std::string digest = Digest(bytes);
    const std::string record = EncodeRecord(digest, bytes);
    CHECK(record.size() <= bytes.size() + static_cast<size_t>(kRecordHeaderBytes));
    CHECK(*DecodeRecord(digest, record) == bytes);
    CHECK(absl::IsDataLoss(DecodeRecord(Digest("other"), record).status()));
    CHECK(absl::IsDataLoss(DecodeRecord(digest, record + "x").status()));
    CHECK(absl::IsDataLoss(
        DecodeRecord(digest, std::string_view(record).substr(0, record.size() - 1)).status()));
    for (size_t at = 0; at < record.size(); at += 1 + record.size() / 200) {
      std::string damaged = record;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
      CHECK(!DecodeRecord(digest, damaged).ok());
    }
  }
}

TEST_CASE("pack: the index at its end says where each chunk is, and a scan finds the same") {
  std::vector<PackEntry> entries;
  const std::string pack = PackOf(Samples(), entries);
  const auto size = static_cast<Bytes>(pack.size());
  auto needed = IndexBytes(Tail(pack, 24), size);
  REQUIRE(needed.ok());
  auto index = ParseIndex(Tail(pack, *needed), size);
  REQUIRE(index.ok());
  CHECK(*index == entries);
  CHECK(ScanPack(pack) == entries);
  auto samples = Samples();
  for (size_t i = 0; i < samples.size(); ++i)
    CHECK(*DecodeRecord((*index)[i].digest,
                        std::string_view(pack).substr(
                            static_cast<size_t>((*index)[i].offset),
                            static_cast<size_t>((*index)[i].record_bytes()))) == samples[i]);
}

TEST_CASE("pack: a damaged or cut index is noticed; the records before the damage are found") {
  std::vector<PackEntry> entries;
  const std::string pack = PackOf({"one", "two", "three"}, entries);
  const auto size = static_cast<Bytes>(pack.size());
  const Bytes needed = *IndexBytes(pack, size);
  for (Bytes at = size - needed; at < size; ++at) {
    std::string damaged = pack;
    damaged[static_cast<size_t>(at)] = static_cast<char>(damaged[static_cast<size_t>(at)] ^ 1);
    auto bytes = IndexBytes(damaged, size);
    CHECK((!bytes.ok() || !ParseIndex(Tail(damaged, *bytes), size).ok()));
    CHECK(ScanPack(damaged) == entries);
  }
  for (size_t cut = 0; cut < pack.size(); ++cut) {
    const std::string part = pack.substr(0, cut);
    CHECK(!IndexBytes(part, static_cast<Bytes>(cut)).ok());
    size_t whole = 0;
    while (whole < 3 && entries[whole].offset + entries[whole].record_bytes() <=
                            static_cast<Bytes>(cut))
      ++whole;
    CHECK(ScanPack(part).size() == whole);
  }
  std::string second = pack;
  second[static_cast<size_t>(entries[1].offset) + 5] ^= 1;
  CHECK(ScanPack(second).size() == 1);
}
