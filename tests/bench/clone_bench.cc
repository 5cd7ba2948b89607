// A checkpoint of 2 GiB (or so many MiB: bench_clone DIRECTORY MIB) that was pushed from this node
// is restored on it again, as a population-based search does: from what the worker kept, without
// the store. DIRECTORY decides the file system, and so whether bytes are shared or copied.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/cas/dir_store.h"
#include "common/cas/tree.h"
#include "worker/trees/tree_fetcher.h"
#include "worker/trees/tree_files.h"

namespace rt::bench {
namespace {

namespace fs = std::filesystem;
using worker::LocalTrees;
constexpr size_t kFiles = 8;
constexpr int kRepeats = 5;

double MillisOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

void WriteTree(const fs::path& folder, size_t mib) {
  fs::create_directories(folder);
  Rng rng(1);
  std::string piece(1u << 20, '\0');
  for (size_t number = 0; number < kFiles; ++number) {
    std::ofstream file(folder / ("shard-" + std::to_string(number)), std::ios::binary);
    for (size_t i = 0; i < mib / kFiles; ++i) {
      for (size_t at = 0; at < piece.size(); at += 8) {
        const uint64_t drawn = rng.Next();
        std::copy_n(reinterpret_cast<const char*>(&drawn), 8, piece.data() + at);
      }
      file << piece;
    }
    RT_CHECK(file.good());
  }
}

size_t FilesIn(const fs::path& folder) {
  auto all = fs::recursive_directory_iterator(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// What a clone may ask of the store: nothing.
class Closed : public BlobSource {
 public:
  absl::StatusOr<std::string> GetChunk(const std::string&) override { return Asked(); }
  absl::StatusOr<std::string> GetManifest(const std::string&) override { return Asked(); }

 private:
  static absl::Status Asked() { return absl::InternalError("a clone asked the store"); }
};

int Run(const fs::path& directory, size_t mib) {
  const fs::path root = directory / ("bench-clone-" + std::to_string(::getpid()));
  WriteTree(root / "saved", mib);
  auto store = DirStore::Open((root / "store").string());
  RT_CHECK(store.ok());
  LocalTrees trees((root / "kept").string(), {.bytes = Bytes{1} << 40});
  const timespec since = worker::FileClock();
  auto stored = StoreTree(**store, (root / "saved").string(), {});
  RT_CHECK(stored.ok());
  trees.Keep(stored->manifest, stored->text, (root / "saved").string(), since);
  ::sync();

  // The clone's row names the same manifest: what the store holds does not change.
  const size_t before = FilesIn(root / "store");
  Closed closed;
  worker::TreeFetcher fetcher(closed, trees);
  std::vector<double> took;
  const bool shares = trees.Clone(stored->manifest, (root / "probe").string()).ok();
  for (int i = 0; i < kRepeats; ++i) {
    const std::string target = (root / ("clone-" + std::to_string(i))).string();
    took.push_back(MillisOf([&] {
      RT_CHECK(fetcher.Fetch(stored->manifest, target, target).ok());
    }));
    fetcher.Leave(target, false);
    fs::remove_all(target);
  }
  const size_t added = FilesIn(root / "store") - before;
  fs::remove_all(root);
  std::sort(took.begin(), took.end());
  std::printf("# %zu MiB in %zu files, %s, median of %d\n", mib, kFiles,
              shares ? "shared by reflinks" : "copied and verified: no reflinks here", kRepeats);
  std::printf("BENCH clone_same_node %.1f ms bar %s peer a copy\n", took[kRepeats / 2],
              shares ? "<=20" : "none");
  std::printf("BENCH clone_in_store %zu files bar <=0 peer a copy\n", added);
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main(int count, char** arguments) {
  if (count < 2) return 2;
  return rt::bench::Run(arguments[1],
                        count > 2 ? static_cast<size_t>(std::atoi(arguments[2])) : 2'048);
}
