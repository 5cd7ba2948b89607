// Chunks of a source in a known order, fetched by threads of its own some way ahead of who takes
// them. One taker; the source is asked from several threads at once.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/cas/blob_store.h"

namespace rt {

struct WantedChunk {
  std::string digest;
  Bytes size = 0;  // As its manifest says.
};

class ReadAhead {
 public:
  // The threads start at once; as many bytes as `ahead` lie ready at most, and one chunk at least.
  ReadAhead(BlobSource& source, std::vector<WantedChunk> wanted, size_t threads, Bytes ahead);
  ~ReadAhead();  // Waits for the calls that are under way.
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next chunk, in order; DataLoss when it has another size than was wanted.
  absl::StatusOr<std::string> Next();

 private:
  void Work();
  bool MayFetch() const;

  BlobSource& source_;
  const std::vector<WantedChunk> wanted_;
  const Bytes ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t fetched_ = 0;  // The next one that a thread begins with.
  size_t taken_ = 0;
  Bytes held_ = 0;  // Begun and not taken.
  bool end_ = false;
  std::map<size_t, absl::StatusOr<std::string>> ready_;
  std::vector<std::thread> threads_;
};

}  // namespace rt
