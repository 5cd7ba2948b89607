// store_trees OUT DIR…: stores the directories one after the other, restores the last to OUT, and
// prints a line for each: bytes of its files, bytes that were stored for it, chunks that were new.
#include <iostream>

#include "common/cas/mem_store.h"
#include "common/cas/tree.h"

using namespace rt;

namespace {

class Counted : public MemStore {
 public:
  size_t chunks = 0, bytes = 0;
  absl::Status PutChunk(const std::string& digest, std::string_view chunk) override {
    ++chunks;
    bytes += chunk.size();
    return MemStore::PutChunk(digest, chunk);
  }
};

}  // namespace

int main(int count, char** arguments) {
  Counted store;
  std::string last;
  for (int i = 2; i < count; ++i) {
    store.chunks = store.bytes = 0;
    auto stored = StoreTree(store, arguments[i], {});
    if (!stored.ok()) {
      std::cerr << stored.status() << "\n";
      return 1;
    }
    last = stored->manifest;
    std::cout << stored->bytes << " " << store.bytes << " " << store.chunks << "\n";
  }
  absl::Status restored = RestoreTree(store, last, arguments[1]);
  if (!restored.ok()) std::cerr << restored << "\n";
  return restored.ok() ? 0 : 1;
}
