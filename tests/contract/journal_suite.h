// What every journal promises. A harness gives a fresh journal, opens it anew as after a crash, and
// makes the next append fail:
//   struct Harness { Journal& journal(); void Reopen(); void FailNext(); };
#pragma once

#include <future>

#include <catch2/catch.hpp>

#include "head/core/rows_digest.h"
#include "head/journal/journal.h"

namespace rt {

inline constexpr size_t kAllRows = SIZE_MAX;

inline Record TokenRecord(uint64_t seq) {
  return {seq, static_cast<Millis>(seq) * 10, event::TokenUsed{"t" + std::to_string(seq)}};
}
inline AttemptId AttemptOf(uint32_t trial, uint32_t number) {
  return {Owner::Of(TrialId{{1}, trial}), number, 1};
}
inline RowBatch RowsOf(const AttemptId& attempt, uint64_t seq) {
  return {attempt, 0, {{seq, static_cast<double>(seq), 1.5, 7, R"({"loss":0.5})"}}};
}
// Announces RowsOf(attempt, seq_to).
inline Record ReportsRecord(uint64_t seq, const AttemptId& attempt, uint64_t seq_to) {
  event::ReportsAccepted reports{.attempt = attempt, .seq_to = seq_to, .count = 1,
                                 .rows_digest = RowsDigest(RowsOf(attempt, seq_to).rows)};
  return {seq, static_cast<Millis>(seq) * 10, reports};
}
inline absl::Status AppendAndWait(Journal& journal, Batch batch) {
  std::promise<absl::Status> done;
  journal.Append(std::move(batch), [&](absl::Status status) { done.set_value(status); });
  return done.get_future().get();
}
inline std::vector<Record> ReadAll(Journal& journal, uint64_t after_seq) {
  std::vector<Record> records;
  REQUIRE(journal.Read(after_seq, [&](const Record& record) {
    records.push_back(record);
    return absl::OkStatus();
  }).ok());
  return records;
}

template <class Harness>
void RunAppendSuite() {
  Harness harness;
  SECTION("an empty journal has nothing to read") {
    CHECK(harness.journal().durable_seq() == 0);
    CHECK(ReadAll(harness.journal(), 0).empty());
    CHECK(harness.journal().ReadBatch(0, 10)->records.empty());
    CHECK(!harness.journal().LatestSnapshot(UINT64_MAX)->has_value());
  }
  SECTION("what was appended is read back, also after a restart, and goes on from there") {
    REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1), TokenRecord(2)}, {}}).ok());
    harness.Reopen();
    CHECK(harness.journal().durable_seq() == 2);
    REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(3)}, {}}).ok());
    CHECK(ReadAll(harness.journal(), 0) ==
          std::vector<Record>{TokenRecord(1), TokenRecord(2), TokenRecord(3)});
    CHECK(ReadAll(harness.journal(), 2) == std::vector<Record>{TokenRecord(3)});
    CHECK(ReadAll(harness.journal(), 3).empty());
  }
  SECTION("batches become durable in order, each announced once") {
    std::vector<int> order;  // The callbacks come one after the other.
    std::promise<void> all;
    for (int i = 0; i < 20; ++i) {
      harness.journal().Append({{TokenRecord(static_cast<uint64_t>(i) + 1)}, {}},
                               [&, i](const absl::Status&) {
                                 order.push_back(i);
                                 if (i == 19) all.set_value();
                               });
    }
    all.get_future().get();
    std::vector<int> expected(20);
    for (int i = 0; i < 20; ++i) expected[static_cast<size_t>(i)] = i;
    CHECK(order == expected);
    CHECK(harness.journal().durable_seq() == 20);
  }
  SECTION("rows come back with their event and by their owner") {
    const AttemptId first = AttemptOf(0, 1), second = AttemptOf(0, 2), other = AttemptOf(1, 1);
    REQUIRE(AppendAndWait(harness.journal(),
                          {{ReportsRecord(1, second, 1), ReportsRecord(2, other, 1)},
                           {RowsOf(second, 1), RowsOf(other, 1)}}).ok());
    REQUIRE(AppendAndWait(harness.journal(),
                          {{TokenRecord(3), ReportsRecord(4, first, 1)}, {RowsOf(first, 1)}}).ok());
    auto tail = harness.journal().ReadBatch(1, 3);
    REQUIRE(tail.ok());
    CHECK(tail->records.size() == 3);
    CHECK(tail->rows == std::vector<RowBatch>{RowsOf(other, 1), RowsOf(first, 1)});
    CHECK(harness.journal().ReadBatch(1, 1)->rows == std::vector<RowBatch>{RowsOf(other, 1)});
    auto rows = harness.journal().ReadRows(first.owner, {}, kAllRows);
    REQUIRE(rows->size() == 2);
    CHECK(rows->at(0).event_seq == 4);
    CHECK(rows->at(0).batch == RowsOf(first, 1));
    CHECK(rows->at(1).batch == RowsOf(second, 1));
  }
}

template <class Harness>
void RunPagingSuite() {
  Harness harness;
  SECTION("rows come in pieces, each after the previous one, and none is left out") {
    const AttemptId first = AttemptOf(0, 1), second = AttemptOf(0, 2);
    Batch batch;
    for (uint64_t seq = 1; seq <= 40; ++seq) {  // Of both attempts in turn.
      const AttemptId& attempt = seq % 2 == 1 ? first : second;
      batch.records.push_back(ReportsRecord(seq, attempt, seq));
      batch.rows.push_back(RowsOf(attempt, seq));
    }
    REQUIRE(AppendAndWait(harness.journal(), std::move(batch)).ok());
    for (size_t bytes_max : {size_t{1}, size_t{100}, size_t{300}, kAllRows}) {
      std::vector<uint64_t> seqs;
      RowPlace place;
      size_t most = 0;
      for (;;) {
        auto piece = harness.journal().ReadRows(first.owner, place, bytes_max);
        REQUIRE(piece.ok());
        if (piece->empty()) break;
        most = std::max(most, piece->size());
        for (const StoredRows& rows : *piece) seqs.push_back(rows.event_seq);
        place = PlaceOf(piece->back());
      }
      REQUIRE(seqs.size() == 40);
      for (uint64_t i = 0; i < 40; ++i) CHECK(seqs[i] == (i < 20 ? 2 * i + 1 : 2 * (i - 20) + 2));
      CHECK((bytes_max == 1 ? most == 1 : bytes_max == kAllRows ? most == 40 : most < 40));
    }
  }
}

template <class Harness>
void RunRecoverySuite() {
  Harness harness;
  SECTION("the newest snapshot wins; one ahead of the log is refused") {
    REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1), TokenRecord(2)}, {}}).ok());
    CHECK(!harness.journal().WriteSnapshot({3, "x"}).ok());
    REQUIRE(harness.journal().WriteSnapshot({1, "one"}).ok());
    REQUIRE(harness.journal().WriteSnapshot({2, "two"}).ok());
    harness.Reopen();
    auto snapshot = harness.journal().LatestSnapshot(UINT64_MAX);
    CHECK((*snapshot)->seq == 2);
    CHECK((*snapshot)->state == "two");
    CHECK(harness.journal().LatestSnapshot(1).value()->state == "one");
    CHECK(!harness.journal().LatestSnapshot(0)->has_value());
  }
  SECTION("a failed append fails all later ones and leaves nothing behind") {
    REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1)}, {}}).ok());
    harness.FailNext();
    CHECK(!AppendAndWait(harness.journal(), {{TokenRecord(2)}, {}}).ok());
    CHECK(!AppendAndWait(harness.journal(), {{TokenRecord(3)}, {}}).ok());
    CHECK(harness.journal().durable_seq() == 1);
    harness.Reopen();
    CHECK(ReadAll(harness.journal(), 0).size() == 1);
    CHECK(AppendAndWait(harness.journal(), {{TokenRecord(2)}, {}}).ok());
  }
  SECTION("a visitor's error ends the reading") {
    REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1), TokenRecord(2)}, {}}).ok());
    int seen = 0;
    absl::Status status = harness.journal().Read(0, [&](const Record&) {
      ++seen;
      return absl::CancelledError("enough");
    });
    CHECK(absl::IsCancelled(status));
    CHECK(seen == 1);
  }
}

template <class Harness>
void RunJournalSuite() {
  RunAppendSuite<Harness>();
  RunPagingSuite<Harness>();
  RunRecoverySuite<Harness>();
}

}  // namespace rt
