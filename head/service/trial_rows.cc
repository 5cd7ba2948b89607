#include "head/service/trial_rows.h"

#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/view/view.h"

namespace rt {
namespace {

// What the row is in an answer, about: the counters that rt fills in, and the configuration, cost
// as much again.
size_t AnswerBytes(const Trial& trial, const Row& row) {
  return 2 * row.metrics.size() + trial.params.size() + 400;
}

// A row among all rows of its trial, in the journal's order.
struct RowCursor {
  RowPlace batch;
  uint64_t seq = 0;
  std::string Text() const;
  static std::optional<RowCursor> Parse(const std::string& text);
};

std::string RowCursor::Text() const {
  std::string text;
  for (uint64_t part : {uint64_t{batch.attempt}, uint64_t{batch.generation}, uint64_t{batch.rank},
                        batch.event_seq, seq})
    text += (text.empty() ? "" : ".") + std::to_string(part);
  return text;
}

std::optional<RowCursor> RowCursor::Parse(const std::string& text) {
  const std::vector<std::string> parts = Split(text, '.');
  std::array<uint64_t, 5> numbers{};
  if (parts.size() != numbers.size()) return std::nullopt;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const char* end = parts[i].data() + parts[i].size();
    auto [stop, error] = std::from_chars(parts[i].data(), end, numbers[i]);
    const bool fits = i >= 3 || numbers[i] <= UINT32_MAX;
    if (error != std::errc() || stop != end || parts[i].empty() || !fits) return std::nullopt;
  }
  return RowCursor{{static_cast<uint32_t>(numbers[0]), static_cast<uint32_t>(numbers[1]),
                    static_cast<uint32_t>(numbers[2]), numbers[3]},
                   numbers[4]};
}

// One answer under way. It lives as long as something is to be called back.
class TrialRows : public std::enable_shared_from_this<TrialRows> {
 public:
  TrialRows(HeadLoop& loop, Journal& journal, Io io, const RowsAsk& ask, JsonDone done)
      : loop_(loop), journal_(journal), io_(std::move(io)), ask_(ask), done_(std::move(done)) {}
  void Begin();

 private:
  void ReadPiece();
  void Take(std::vector<StoredRows> piece);
  absl::Status TakeNow(const Core& core, const std::vector<StoredRows>& piece);
  void Add(const Core& core, const Trial& trial, const StoredRows& batch, const Row& row);
  void Answer();

  HeadLoop& loop_;
  Journal& journal_;
  const Io io_;
  RowsAsk ask_;
  const JsonDone done_;
  RowPlace place_;       // Batches up to here were taken.
  RowCursor looked_at_;  // The last row that was taken, or passed over.
  Json rows_ = Json::MakeArray();
  size_t bytes_ = 0;
  bool is_full_ = false;
};

void TrialRows::Begin() {
  if (!ask_.after.empty()) {
    const std::optional<RowCursor> after = RowCursor::Parse(ask_.after);
    if (!after || after->batch.event_seq == 0)
      return done_(Invalid("'after' is not the 'next' of an answer"));
    looked_at_ = *after;
    place_ = after->batch;
    --place_.event_seq;  // The rest of its batch is read again.
  }
  auto found = std::make_shared<bool>(false);
  auto read = [self = shared_from_this(), found](const Core& core) {
    TrialId& id = self->ask_.trial;
    const auto& experiments = core.world.state.experiments;
    if (id.experiment.value == 0 && !experiments.empty())
      id.experiment = experiments.rbegin()->first;
    *found = FindTrial(core.world.state, id) != nullptr;
  };
  loop_.Query(std::move(read), [self = shared_from_this(), found](const absl::Status& status) {
    if (!status.ok()) return self->done_(status);
    if (!*found) return self->done_(NotFound("there is no trial " + ToString(self->ask_.trial)));
    self->ReadPiece();
  });
}

void TrialRows::ReadPiece() {
  io_([self = shared_from_this()] {
    auto piece = self->journal_.ReadRows(Owner::Of(self->ask_.trial), self->place_,
                                         limits::kRowsReadBytes);
    if (!piece.ok()) return self->done_(piece.status());
    if (piece->empty()) return self->Answer();
    self->Take(*std::move(piece));
  });
}

void TrialRows::Take(std::vector<StoredRows> piece) {
  auto taken = std::make_shared<absl::Status>();
  auto view = [self = shared_from_this(), taken, piece = std::move(piece)](const Core& core) {
    *taken = self->TakeNow(core, piece);
  };
  loop_.Query(std::move(view), [self = shared_from_this(), taken](const absl::Status& status) {
    if (!status.ok() || !taken->ok()) return self->done_(status.ok() ? *taken : status);
    if (self->is_full_) return self->Answer();
    self->ReadPiece();
  });
}

absl::Status TrialRows::TakeNow(const Core& core, const std::vector<StoredRows>& piece) {
  const Trial* trial = FindTrial(core.world.state, ask_.trial);
  if (trial == nullptr) return NotFound("there is no trial " + ToString(ask_.trial));
  for (const StoredRows& batch : piece) {
    place_ = PlaceOf(batch);
    for (const Row& row : batch.batch.rows) {
      const bool was_seen = looked_at_.batch == place_ && row.seq <= looked_at_.seq;
      if (was_seen) continue;
      Add(core, *trial, batch, row);
      if (is_full_) return absl::OkStatus();
      looked_at_ = {place_, row.seq};
    }
  }
  return absl::OkStatus();
}

void TrialRows::Add(const Core& core, const Trial& trial, const StoredRows& batch,
                    const Row& row) {
  const AttemptId& attempt = batch.batch.attempt;
  const bool is_wanted = batch.batch.rank == 0 && row.iteration > ask_.after_iteration &&
                         trial.Counts(attempt, row.seq);
  if (!is_wanted) return;
  bytes_ += AnswerBytes(trial, row);
  is_full_ = bytes_ > limits::kRowsAnswerBytes && !rows_.array().empty();
  if (!is_full_) rows_.Append(FillResult(core, trial, attempt, row));
}

void TrialRows::Answer() {
  done_(Json::MakeObject({{"rows", std::move(rows_)},
                          {"more", is_full_},
                          {"next", is_full_ ? Json(looked_at_.Text()) : Json()}}));
}

}  // namespace

void ReadTrialRows(HeadLoop& loop, Journal& journal, const Io& io, const RowsAsk& ask,
                   JsonDone done) {
  std::make_shared<TrialRows>(loop, journal, io, ask, std::move(done))->Begin();
}

}  // namespace rt
