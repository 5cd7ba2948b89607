// Heads and workers of different releases talk to each other: what an earlier release says is still
// understood, field by field, and every call that it makes is still there. tests/data/wire holds,
// for each release, each message with every field set, as that release wrote it.
// RT_RECORD_WIRE=DIR unit_wire: records this one's (docs/checklists.md).
#include <catch2/catch.hpp>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/json.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "rt/v1/checkpoint.pb.h"
#include "rt/v1/cluster.pb.h"
#include "rt/v1/experiment.pb.h"
#include "rt/v1/job.pb.h"
#include "rt/v1/worker.pb.h"

namespace pb = google::protobuf;
using rt::Json;

namespace {

constexpr int kDepthMax = 6;

std::vector<const pb::FileDescriptor*> Files() {
  return {rt::v1::Owner::descriptor()->file(),         rt::v1::JoinRequest::descriptor()->file(),
          rt::v1::SyncRequest::descriptor()->file(),   rt::v1::ChunkPiece::descriptor()->file(),
          rt::v1::CreateExperimentRequest::descriptor()->file(),
          rt::v1::SubmitJobRequest::descriptor()->file()};
}

std::unique_ptr<pb::Message> Make(const pb::Descriptor& type) {
  return std::unique_ptr<pb::Message>(
      pb::MessageFactory::generated_factory()->GetPrototype(&type)->New());
}

// Sets the field, or adds to it, so that no two of a message have the same value.
void Set(pb::Message& message, const pb::FieldDescriptor& field, int value, int depth);

void Fill(pb::Message& message, int depth) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const pb::FieldDescriptor& field = *message.GetDescriptor()->field(i);
    for (int times = field.is_repeated() ? 2 : 1; times > 0; --times)
      Set(message, field, 7 * field.number() + times, depth);
  }
}

void Set(pb::Message& message, const pb::FieldDescriptor& field, int value, int depth) {
  const pb::Reflection& with = *message.GetReflection();
  const bool adds = field.is_repeated();
  using Field = pb::FieldDescriptor;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return adds ? with.AddInt32(&message, &field, -value)
                  : with.SetInt32(&message, &field, -value);
    case Field::CPPTYPE_INT64:
      return adds ? with.AddInt64(&message, &field, -value)
                  : with.SetInt64(&message, &field, -value);
    case Field::CPPTYPE_UINT32:
      return adds ? with.AddUInt32(&message, &field, static_cast<uint32_t>(value))
                  : with.SetUInt32(&message, &field, static_cast<uint32_t>(value));
    case Field::CPPTYPE_UINT64:
      return adds ? with.AddUInt64(&message, &field, static_cast<uint64_t>(value))
                  : with.SetUInt64(&message, &field, static_cast<uint64_t>(value));
    case Field::CPPTYPE_DOUBLE:
      return adds ? with.AddDouble(&message, &field, value / 2.0)
                  : with.SetDouble(&message, &field, value / 2.0);
    case Field::CPPTYPE_FLOAT:
      return adds ? with.AddFloat(&message, &field, static_cast<float>(value))
                  : with.SetFloat(&message, &field, static_cast<float>(value));
    case Field::CPPTYPE_BOOL:
      return adds ? with.AddBool(&message, &field, true) : with.SetBool(&message, &field, true);
    case Field::CPPTYPE_ENUM: {
      const int last = field.enum_type()->value_count() - 1;
      return adds ? with.AddEnum(&message, &field, field.enum_type()->value(last))
                  : with.SetEnum(&message, &field, field.enum_type()->value(last));
    }
    case Field::CPPTYPE_STRING:
      return adds ? with.AddString(&message, &field, "text" + std::to_string(value))
                  : with.SetString(&message, &field, "text" + std::to_string(value));
    case Field::CPPTYPE_MESSAGE:
      if (depth < kDepthMax)
        Fill(adds ? *with.AddMessage(&message, &field) : *with.MutableMessage(&message, &field),
             depth + 1);
  }
}

// Maps have no order of their own.
std::string BytesOf(const pb::Message& message) {
  std::string bytes;
  pb::io::StringOutputStream stream(&bytes);
  pb::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

bool KnowsAll(const pb::Message& message) {
  const pb::Reflection& with = *message.GetReflection();
  if (!with.GetUnknownFields(message).empty()) return false;
  std::vector<const pb::FieldDescriptor*> fields;
  with.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? with.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i)
      if (!KnowsAll(field->is_repeated() ? with.GetRepeatedMessage(message, field, i)
                                         : with.GetMessage(message, field)))
        return false;
  }
  return true;
}

// "rt.v1.WorkerService.Sync: rt.v1.SyncRequest -> rt.v1.SyncReply"
std::string SignatureOf(const pb::MethodDescriptor& method) {
  return method.full_name() + ": " + (method.client_streaming() ? "stream " : "") +
         method.input_type()->full_name() + " -> " +
         (method.server_streaming() ? "stream " : "") + method.output_type()->full_name();
}

Json Record() {
  Json messages = Json::MakeObject(), calls = Json::MakeArray();
  for (const pb::FileDescriptor* file : Files()) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      const pb::Descriptor& type = *file->message_type(i);
      auto message = Make(type);
      Fill(*message, 0);
      messages.Set(type.full_name(), rt::ToHex(BytesOf(*message)));
    }
    for (int i = 0; i < file->service_count(); ++i)
      for (int j = 0; j < file->service(i)->method_count(); ++j)
        calls.Append(SignatureOf(*file->service(i)->method(j)));
  }
  return Json::MakeObject({{"messages", std::move(messages)}, {"calls", std::move(calls)}});
}

// Of each release: its folder's name and what it recorded.
std::vector<std::pair<std::string, Json>> Recorded() {
  std::vector<std::pair<std::string, Json>> all;
  for (const auto& entry : std::filesystem::directory_iterator(RT_RECORDED_WIRE)) {
    auto text = rt::ReadFile(entry.path().string() + "/wire.json");
    REQUIRE(text.ok());
    auto json = Json::Parse(*text);
    REQUIRE(json.ok());
    all.emplace_back(entry.path().filename().string(), *std::move(json));
  }
  REQUIRE(!all.empty());
  return all;
}

// That this release knows every message in the record, whole.
void CheckMessages(const std::string& release, const Json& record) {
  for (const auto& [name, hex] : record.Find("messages")->object()) {
    INFO(release << ": " << name);
    const pb::Descriptor* type =
        pb::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
    REQUIRE(type != nullptr);
    const std::optional<std::string> bytes = rt::FromHex(hex.AsString());
    REQUIRE(bytes.has_value());
    auto message = Make(*type);
    REQUIRE(message->ParseFromString(*bytes));
    CHECK(KnowsAll(*message));
    CHECK(rt::ToHex(BytesOf(*message)) == hex.AsString());
  }
}

void CheckCalls(const std::string& release, const Json& record) {
  for (const Json& call : record.Find("calls")->array()) {
    INFO(release << ": " << call.AsString());
    const std::string name = call.AsString().substr(0, call.AsString().find(':'));
    const pb::MethodDescriptor* method =
        pb::DescriptorPool::generated_pool()->FindMethodByName(name);
    REQUIRE(method != nullptr);
    CHECK(SignatureOf(*method) == call.AsString());
  }
}

}  // namespace

TEST_CASE("what earlier releases say on the wire is understood, every field of it") {
  for (const auto& [release, record] : Recorded()) CheckMessages(release, record);
}

TEST_CASE("every call that earlier releases make is there, with the same messages") {
  for (const auto& [release, record] : Recorded()) CheckCalls(release, record);
}

TEST_CASE("a field that is gone, or is of another type, is noticed") {
  auto message = Make(*rt::v1::Fence::descriptor());
  REQUIRE(message->ParseFromString(std::string("\x38\x01", 2)));  // Field 7.
  CHECK_FALSE(KnowsAll(*message));
  REQUIRE(message->ParseFromString(std::string("\x12\x01q", 3)));  // The rank as a text.
  CHECK_FALSE(KnowsAll(*message));
}

TEST_CASE("the record of this release is whole, and written where that was asked for") {
  const Json record = Record();
  REQUIRE(record.Find("messages")->object().size() > 50);
  REQUIRE(record.Find("calls")->array().size() > 20);
  CheckMessages("this one", record);
  CheckCalls("this one", record);
  const char* folder = std::getenv("RT_RECORD_WIRE");
  if (folder == nullptr) return;
  REQUIRE(rt::WriteFileAtomic(std::string(folder) + "/wire.json", record.Dump()).ok());
}
