// The bounds on what a tree takes once it is unpacked.
#include <sys/statvfs.h>

#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/mem_store.h"
#include "common/cas/unpack.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

// A file that names one chunk of 4 MiB that many times.
ManifestEntry Repeated(const std::string& path, size_t times) {
  const std::string digest = Digest(std::string(limits::kChunkBytes, 'x'));
  return {.path = path,
          .size = static_cast<Bytes>(times * limits::kChunkBytes),
          .chunks = std::vector<std::string>(times, digest)};
}

}  // namespace

TEST_CASE("unpack: a bundle that names one chunk 800 times is refused by its size") {
  MemStore store;
  const std::string chunk(limits::kChunkBytes, 'x');
  REQUIRE(store.PutChunk(Digest(chunk), chunk).ok());
  const Manifest repeated{.entries = {Repeated("a", 800)}};
  const std::string manifest = *store.PutManifest(*FormatManifest(repeated));
  const absl::Status refused = CheckBundle(store, manifest);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(MessageOf(refused) ==
        "the bundle unpacks to 3.1 GiB in 1 files; the limits are 2.0 GiB and 100000 files");
  CHECK_FALSE(HintOf(refused).empty());
  CHECK(CheckBundle({.entries = {Repeated("a", 512)}}).ok());
  CHECK_FALSE(CheckBundle({.entries = {Repeated("a", 256), Repeated("b", 257)}}).ok());
  CHECK(absl::IsNotFound(CheckBundle(store, Digest("other"))));
}

TEST_CASE("unpack: a bundle of too many files is refused") {
  Manifest many;
  for (size_t i = 0; i <= limits::kBundleFilesMax; ++i)
    many.entries.push_back({.path = std::to_string(i)});
  CHECK(TotalsOf(many).files == limits::kBundleFilesMax + 1);
  CHECK_FALSE(CheckBundle(many).ok());
  many.entries.pop_back();
  CHECK(CheckBundle(many).ok());
}

TEST_CASE("unpack: a tree is compared with what its file system has and has free") {
  TempDir dir("unpack");
  struct statvfs info {};
  REQUIRE(::statvfs(dir.path().c_str(), &info) == 0);
  const auto block = static_cast<Bytes>(info.f_frsize);
  auto of_size = [](Bytes bytes) { return Manifest{.entries = {{.path = "a", .size = bytes}}}; };
  CHECK(CheckUnpack(of_size(1), dir.path()).ok());
  const Bytes whole = static_cast<Bytes>(info.f_blocks) * block;
  const absl::Status never = CheckUnpack(of_size(whole + 1), dir.path());
  CHECK(absl::IsFailedPrecondition(never));
  CHECK(MessageOf(never).find(" in all") != std::string::npos);
  const absl::Status later = CheckUnpack(of_size(whole), dir.path());  // Some of it is in use.
  CHECK(absl::IsResourceExhausted(later));
  CHECK(MessageOf(later).find(dir.path() + " has only ") != std::string::npos);
  CHECK(CheckUnpack(of_size(1), dir.path() + "/absent").code() == absl::StatusCode::kNotFound);
}
