#include "worker/notice/notice_watch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>

#include "common/base/limits.h"
#include "tests/patience.h"

using namespace rt;
using namespace rt::worker;

namespace {

// Says one thing after another, then the last for ever.
class Scripted final : public NoticeSource {
 public:
  using Word = absl::StatusOr<std::optional<Notice>>;
  explicit Scripted(std::vector<Word> words) : words_(std::move(words)) {}
  const char* name() const override { return "script"; }
  Word Look(Millis) override {
    const Word word = words_[std::min(next_, words_.size() - 1)];
    ++next_;
    return word;
  }
  Millis pause() const override { return 1; }
  absl::Status Acknowledge() override {
    ++acknowledged;
    return absl::OkStatus();
  }
  std::atomic<int> acknowledged{0};

 private:
  std::vector<Word> words_;
  size_t next_ = 0;
};

// What the watch said so far.
struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Notice>> all;
  bool is_idle = false;

  NoticeEvents Events() {
    return {[this](const std::optional<Notice>& notice) {
              std::lock_guard lock(mutex);
              all.push_back(notice);
              changed.notify_all();
            },
            [this] { return is_idle; }};
  }
  bool WaitFor(size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, [&] { return all.size() >= count; });
  }
};

std::vector<std::unique_ptr<NoticeSource>> One(std::vector<Scripted::Word> words) {
  std::vector<std::unique_ptr<NoticeSource>> sources;
  sources.push_back(std::make_unique<Scripted>(std::move(words)));
  return sources;
}

}  // namespace

TEST_CASE("the notice with the earliest deadline counts; one that is long past does not") {
  const Notice early{"a", 50'000}, late{"b", 90'000}, open{"c", 0};
  CHECK(FirstNotice({}, 0) == std::nullopt);
  CHECK(FirstNotice({std::nullopt, open}, 0) == open);
  CHECK(FirstNotice({open, late, early}, 0) == early);
  CHECK(FirstNotice({early}, 50'000 + limits::kNoticeGrace) == early);
  CHECK(FirstNotice({early, late}, 50'001 + limits::kNoticeGrace) == late);
  CHECK(FirstNotice({early}, 50'001 + limits::kNoticeGrace) == std::nullopt);
}

TEST_CASE("a source that fails never drains, and what it said before stands") {
  const Notice notice{"spot", 0};
  const absl::Status broken = absl::UnavailableError("no answer");
  Heard heard;
  {
    NoticeWatch watch(One({broken, std::nullopt, notice, broken, notice, std::nullopt}),
                      heard.Events());
    watch.Start();
    REQUIRE(heard.WaitFor(2));
  }
  CHECK(heard.all == std::vector<std::optional<Notice>>{notice, std::nullopt});
}

TEST_CASE("a notice is acknowledged only where nothing runs") {
  Heard heard;
  heard.is_idle = true;
  auto sources = One({Notice{"spot", 0}});
  auto& script = static_cast<Scripted&>(*sources[0]);
  NoticeWatch watch(std::move(sources), heard.Events());
  watch.Start();
  REQUIRE(heard.WaitFor(1));
  CHECK(script.acknowledged >= 1);
  Heard busy;
  auto others = One({Notice{"spot", 0}});
  auto& other = static_cast<Scripted&>(*others[0]);
  NoticeWatch second(std::move(others), busy.Events());
  second.Start();
  REQUIRE(busy.WaitFor(1));
  CHECK(other.acknowledged == 0);
}
