// One more event: a struct with its field list, a message, and a row in the table. Here the
// journal's schema of a next release is made at run time.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <catch2/catch.hpp>
#include <type_traits>

#include "common/wire/wire_fields.h"
#include "head/core/event_rows.h"
#include "head/journal/codec.h"
#include "rt/store/journal.pb.h"

namespace rt {
namespace {

// An event of a next release.
struct NodePainted {
  NodeId node;
  std::string colour;
  std::vector<Owner> owners;
  RT_FIELDS(NodePainted, node, colour, owners);
};

constexpr uint32_t kNextNumber = 10'000;  // In the oneof of Record.

struct NextSchema {
  static const google::protobuf::Descriptor* Find(const char* message) {
    static google::protobuf::DescriptorPool pool(store::Record::descriptor()->file()->pool());
    static const google::protobuf::FileDescriptor* file = [] {
      google::protobuf::FileDescriptorProto next;
      next.set_name("next.proto");
      next.set_package("next");
      next.set_syntax("proto3");
      next.add_dependency(store::Owner::descriptor()->file()->name());
      google::protobuf::DescriptorProto* painted = next.add_message_type();
      painted->set_name("NodePainted");
      auto add = [&](const char* name, google::protobuf::FieldDescriptorProto::Type type) {
        google::protobuf::FieldDescriptorProto* field = painted->add_field();
        field->set_name(name);
        field->set_number(painted->field_size());
        field->set_type(type);
        field->set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
        return field;
      };
      add("node", google::protobuf::FieldDescriptorProto::TYPE_UINT64);
      add("colour", google::protobuf::FieldDescriptorProto::TYPE_STRING);
      auto* owners = add("owners", google::protobuf::FieldDescriptorProto::TYPE_MESSAGE);
      owners->set_type_name(store::Owner::descriptor()->full_name());
      owners->set_label(google::protobuf::FieldDescriptorProto::LABEL_REPEATED);
      return pool.BuildFile(next);
    }();
    const auto* found = file->FindMessageTypeByName(message);
    const auto* known = store::Record::descriptor()->file()->pool();
    return found != nullptr ? found
                            : known->FindMessageTypeByName(std::string("rt.store.") + message);
  }
};

template <class Rows, class Event>
constexpr bool kHasRow = std::is_invocable_r_v<EventMeaning, const Rows&, const Event&>;

template <class Rows, class... Types>
constexpr bool HaveRows(const std::variant<Types...>*) {
  return (kHasRow<Rows, Types> && ...);
}

using Rows = decltype(event_rows::kAll);
static_assert(HaveRows<Rows>(static_cast<const EventVariant*>(nullptr)));
// MeaningOf visits the table: an event for which this is false does not compile.
static_assert(!kHasRow<Rows, NodePainted>);
// Whoever writes what drivers read (questions.cc) asks this of each event that it has no entry for.
static_assert(event_rows::kIsRead<event::TrialEnded> && !event_rows::kIsRead<event::NodeLost>);

}  // namespace

TEST_CASE("event seam: the table takes one more row, and the others stay as they are") {
  const auto rows =
      Overloaded{event_rows::kAll, [](const NodePainted& e) {
                   return event_rows::M{.owners = e.owners, .invites_placement = true};
                 }};
  static_assert(kHasRow<decltype(rows), NodePainted>);
  using NextVariant = std::variant<event::NodeLost, NodePainted>;
  const NextVariant painted = NodePainted{NodeId{3}, "red", {Owner::Of(JobId{7})}};
  const EventMeaning meaning = std::visit(rows, painted);
  CHECK(meaning.owners == std::vector<Owner>{Owner::Of(JobId{7})});
  CHECK(meaning.invites_placement);
  CHECK(meaning.reader.experiment.value == 0);
  const NextVariant lost = event::NodeLost{NodeId{3}, "it fell silent"};
  CHECK(std::visit(rows, lost).invites_placement ==
        MeaningOf(event::NodeLost{NodeId{3}, "it fell silent"}).invites_placement);
}

TEST_CASE("event seam: a new event is journalled by its field list") {
  const NodePainted painted{NodeId{3}, "red", {Owner::Of(JobId{7}), Owner::Of(TrialId{{2}, 5})}};
  codec::WireWriter out;
  codec::Encode<NextSchema>(out, painted);
  const std::string bytes = out.Take();
  NodePainted read;
  codec::SetZero(read);
  codec::WireReader in(bytes);
  codec::Decode<NextSchema>(in, read);
  CHECK_FALSE(in.failed());
  CHECK(read == painted);
}

TEST_CASE("event seam: this release refuses a journal with an event of a next one") {
  codec::WireWriter out;
  codec::Put<NextSchema>(out, {store::Record::kSeqFieldNumber}, uint64_t{12});
  codec::PutField<NextSchema>(out, {kNextNumber}, NodePainted{NodeId{3}, "red", {}});
  const auto record = DecodeRecord(out.Take());
  REQUIRE_FALSE(record.ok());
  CHECK(record.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(record.status().message().find("record 12: event type 10000 is unknown to rt ") == 0);
}

}  // namespace rt
