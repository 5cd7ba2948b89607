// A checkpoint of 2 GiB (or so many MiB: bench_store MIB) into the head's own blob store and back,
// beside a bare loop that hashes and syncs the same bytes; then a second one in which 5 % of the
// tensors changed and the header grew. In the current directory, which must have room for three.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/cas/digest.h"
#include "common/cas/dir_store.h"
#include "common/cas/tree.h"

namespace rt::bench {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kTensorBytes = Bytes{16} << 20;

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string Tensor(uint64_t seed) {
  Rng rng(seed);
  std::string bytes(kTensorBytes, '\0');
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t drawn = rng.Next();
    std::copy_n(reinterpret_cast<const char*>(&drawn), 8, bytes.data() + at);
  }
  return bytes;
}

// As safetensors writes it; at most 5 % of the tensors depend on the generation.
void WriteCheckpoint(const fs::path& folder, size_t tensors, uint64_t generation) {
  fs::create_directories(folder);
  std::string header = "{\"__metadata__\":{\"note\":\"" + std::string(1'000 * generation, 'x') +
                       "\"}";
  for (size_t i = 0; i < tensors; ++i) {
    const Bytes begin = static_cast<Bytes>(i) * kTensorBytes;
    header += ",\"t" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(begin + kTensorBytes) + "]}";
  }
  header += "}";
  const uint64_t size = header.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), 8);
  file << header;
  for (size_t i = 0; i < tensors; ++i)
    file << Tensor(i % 20 == 7 && i < tensors / 20 * 20 ? i + 1'000'000 * generation : i);
  RT_CHECK(file.good());
}

// What any store must do: read, hash, write, one sync at the end.
void BareLoop(const fs::path& from, const fs::path& to, bool sync) {
  const int in = ::open(from.c_str(), O_RDONLY);
  const int out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  RT_CHECK(in >= 0 && out >= 0);
  std::string bytes(4u << 20, '\0');
  for (ssize_t got; (got = ::read(in, bytes.data(), bytes.size())) > 0;) {
    (void)Digest(std::string_view(bytes).substr(0, static_cast<size_t>(got)));
    RT_CHECK(::write(out, bytes.data(), static_cast<size_t>(got)) == got);
  }
  RT_CHECK(!sync || ::fdatasync(out) == 0);
  ::close(in);
  ::close(out);
}

Bytes StoredBytes(const fs::path& root) {
  Bytes bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / "chunks"))
    if (entry.is_regular_file()) bytes += static_cast<Bytes>(entry.file_size());
  return bytes;
}

int Run(size_t mib) {
  const size_t tensors = std::max<size_t>(20, mib * (1u << 20) / kTensorBytes);
  const double size = static_cast<double>(tensors) * static_cast<double>(kTensorBytes);
  const fs::path root = fs::current_path() / ("bench-store-" + std::to_string(::getpid()));
  WriteCheckpoint(root / "first", tensors, 1);
  const fs::path file = root / "first/model.safetensors";
  auto store = DirStore::Open((root / "store").string());
  RT_CHECK(store.ok());
  auto push = [&](const char* name) {
    auto stored = StoreTree(**store, (root / name).string(), {});
    RT_CHECK(stored.ok());
    return stored->manifest;
  };

  std::string manifest;
  const double push_s = Seconds([&] { manifest = push("first"); });
  const double bare_push_s = Seconds([&] { BareLoop(file, root / "bare", true); });
  fs::remove(root / "bare");
  const double pull_s = Seconds([&] {
    RT_CHECK(RestoreTree(**store, manifest, (root / "out").string()).ok());
  });
  const double bare_pull_s = Seconds([&] { BareLoop(file, root / "bare", false); });
  fs::remove(root / "bare");
  fs::remove_all(root / "out");
  fs::remove_all(root / "first");

  WriteCheckpoint(root / "second", tensors, 2);
  const fs::path second = root / "second/model.safetensors";
  const Bytes before = StoredBytes(root / "store");
  const double hash_s = Seconds([&] { BareLoop(second, "/dev/null", false); });
  const double second_s = Seconds([&] { push("second"); });
  const double share = static_cast<double>(StoredBytes(root / "store") - before) / size;
  fs::remove_all(root);

  const double mb = size / 1e6;
  std::printf("# checkpoint of %.0f MB: push %.2f s (bare %.2f), pull %.2f s (bare %.2f), "
              "second push %.2f s (hashing %.2f)\n",
              mb, push_s, bare_push_s, pull_s, bare_pull_s, second_s, hash_s);
  std::printf("BENCH store_push %.0f MB/s bar %.0f peer a bare loop of hash and fdatasync\n",
              mb / push_s, 0.85 * mb / bare_push_s);
  std::printf("BENCH store_pull %.0f MB/s bar %.0f peer a bare loop of hash and write\n",
              mb / pull_s, 0.85 * mb / bare_pull_s);
  std::printf("BENCH store_second_bytes %.1f %% bar 6 peer a full copy\n", 100 * share);
  std::printf("BENCH store_second_time %.2f s bar %.2f peer hashing and 10 %% of the first push\n",
              second_s, hash_s + 0.1 * push_s);
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main(int count, char** arguments) {
  return rt::bench::Run(count > 1 ? static_cast<size_t>(std::atoi(arguments[1])) : 2'048);
}
