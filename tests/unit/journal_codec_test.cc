#include <catch2/catch.hpp>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "common/wire/shape.h"
#include "rt/store/journal.pb.h"
#include "rt/store/state.pb.h"

using namespace rt;

namespace {

// Fills a value of any journalled type at random; never with NaN, which equals nothing.
template <class V>
void Fill(V& value, Rng& rng) {
  if constexpr (std::same_as<V, bool>) {
    value = rng.Chance(0.5);
  } else if constexpr (std::same_as<V, std::string>) {
    value = "s" + std::to_string(rng.Below(1000));
  } else if constexpr (std::is_enum_v<V>) {
    value = static_cast<V>(rng.Below(3));
  } else if constexpr (std::is_integral_v<V>) {
    value = static_cast<V>(rng.Next());
  } else if constexpr (std::same_as<V, double>) {
    value = rng.Normal();
  } else if constexpr (codec::IsStruct<V>) {
    codec::Shape<V>::Each(value, [&](const char*, auto& member) { Fill(member, rng); });
  } else if constexpr (codec::IsId<V>) {
    Fill(value.value, rng);
  } else if constexpr (codec::IsMap<V>) {
    for (uint64_t left = rng.Below(4); left > 0; --left) {
      typename V::key_type key{};
      Fill(key, rng);
      Fill(value[key], rng);
    }
  } else {
    for (uint64_t left = rng.Below(4); left > 0; --left) {
      typename V::value_type element{};
      Fill(element, rng);
      value.insert(value.end(), std::move(element));
    }
  }
}

// What protobuf itself makes of our bytes, in its own spelling; empty when it finds a field that
// the proto does not have.
template <class Proto>
std::string ThroughProtobuf(const std::string& bytes) {
  Proto message;
  REQUIRE(message.ParseFromString(bytes));
  const size_t size = message.ByteSizeLong();
  message.DiscardUnknownFields();
  return message.ByteSizeLong() == size ? message.SerializeAsString() : "";
}

template <size_t I>
void CheckEvent(Rng& rng) {
  Record record{.seq = rng.Next(), .at = static_cast<Millis>(rng.Next())};
  Fill(record.event.emplace<I>(), rng);
  INFO(EventName(record.event));
  auto decoded = DecodeRecord(EncodeRecord(record));
  REQUIRE(decoded.ok());
  CHECK(*decoded == record);
  CHECK(DecodeRecord(ThroughProtobuf<store::Record>(EncodeRecord(record))).value() == record);
}

template <size_t... I>
void CheckEvents(Rng& rng, std::index_sequence<I...>) {
  (CheckEvent<I>(rng), ...);
}

}  // namespace

TEST_CASE("codec: every field of every event is in the proto and comes back") {
  Rng rng(1);
  for (int round = 0; round < 50; ++round) {
    CheckEvents(rng, std::make_index_sequence<std::variant_size_v<EventVariant>>());
  }
}

TEST_CASE("codec: every field of the state and of rows is in the proto and comes back") {
  Rng rng(2);
  for (int round = 0; round < 50; ++round) {
    State state;
    Fill(state, rng);
    auto decoded = DecodeState(EncodeState(state));
    REQUIRE(decoded.ok());
    CHECK((*decoded == state));
    CHECK(EncodeState(*decoded) == EncodeState(state));
    RowBatch rows;
    Fill(rows, rng);
    CHECK((DecodeRows(EncodeRows(rows)).value() == rows));
    CHECK((DecodeRows(ThroughProtobuf<store::RowBatch>(EncodeRows(rows))).value() == rows));
    CHECK((DecodeState(ThroughProtobuf<store::State>(EncodeState(state))).value() == state));
  }
}

TEST_CASE("codec: defaults, NaN and infinity come back") {
  Record record{.seq = 1, .at = 2, .event = event::RungRecorded{}};
  CHECK(DecodeRecord(EncodeRecord(record)).value() == record);
  std::get<event::RungRecorded>(record.event).value = std::nan("");
  std::get<event::RungRecorded>(record.event).milestone = -INFINITY;
  auto decoded = std::get<event::RungRecorded>(DecodeRecord(EncodeRecord(record))->event);
  CHECK(std::isnan(decoded.value));
  CHECK(decoded.milestone == -INFINITY);
}

TEST_CASE("codec: what is zero stays zero, also where the struct's default is another") {
  Record record{.seq = 1, .at = 2, .event = event::AttemptPlaced{}};
  std::get<event::AttemptPlaced>(record.event).attempt.generation = 0;
  CHECK(DecodeRecord(EncodeRecord(record)).value() == record);
}

TEST_CASE("codec: a field that a newer version added is skipped, wherever it stands") {
  store::TokenCreated token;
  token.set_token("t");
  token.set_pool("p");
  token.GetReflection()->MutableUnknownFields(&token)->AddLengthDelimited(77, "new");
  token.GetReflection()->MutableUnknownFields(&token)->AddFixed32(78, 1);
  store::Record message;
  message.set_seq(4);
  *message.mutable_token_created() = token;
  const std::string bytes = message.SerializeAsString();
  const auto decoded = DecodeRecord(bytes);
  CHECK(std::get<event::TokenCreated>(decoded->event) ==
        event::TokenCreated{.token = "t", .pool = "p"});
}

TEST_CASE("codec: cut or altered bytes are refused or read, never read beyond") {
  Rng rng(3);
  size_t refused = 0;
  for (int round = 0; round < 200; ++round) {
    State state;
    Fill(state, rng);
    std::string bytes = EncodeState(state);
    const auto whole = bytes.size();
    bytes.resize(rng.Below(whole));
    for (int i = 0; i < 3 && !bytes.empty(); ++i)
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Next());
    const std::vector<char> exact(bytes.begin(), bytes.end());  // ASan sees its end.
    refused += DecodeState({exact.data(), exact.size()}).ok() ? 0 : 1;
  }
  CHECK(refused > 100);
}

TEST_CASE("codec: text that is not UTF-8 does not make the journal unreadable") {
  Record record{.seq = 1, .at = 2, .event = event::TokenUsed{"a\xff"}};
  const absl::StatusOr<Record> read = DecodeRecord(EncodeRecord(record));
  const std::string& token = std::get<event::TokenUsed>(read->event).token;
  CHECK(token == "a\xef\xbf\xbd");
}

TEST_CASE("codec: an unknown event type is refused by name") {
  store::Record message;
  message.set_seq(5);
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(999, "");
  absl::Status status = DecodeRecord(message.SerializeAsString()).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(MessageOf(status).find("999") != std::string::npos);
}

TEST_CASE("chain: SHA-256 of the hash before and the body") {
  // The test vector of FIPS 180-2, cut in two.
  constexpr char kExpected[] =
      "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\xb0\x03\x61\xa3\x96\x17"
      "\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad";
  CHECK(Chain("a", "bc") == std::string(kExpected, kHashBytes));
  CHECK(Chain("", "abc") == Chain("abc", ""));
  CHECK(Chain("", "abd") != Chain("", "abc"));
}
