// One more field in the launch record, and in what is observed: a member and a line in the proto,
// and it travels. Here the proto of a next release is made at run time.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <catch2/catch.hpp>
#include <set>

#include "common/base/json.h"
#include "common/base/strings.h"
#include "common/rpc/launch_wire.h"
#include "common/run/files.h"
#include "common/wire/json_fields.h"
#include "rt/v1/worker.pb.h"
#include "worker/launch/launch_body.h"

namespace rt {
namespace {

// The launch record of a next release.
struct NextLaunch {
  Fence fence;
  std::vector<std::string> argv;
  int32_t nice_level = 0;
  RT_FIELDS(NextLaunch, fence, argv, nice_level);
};

struct NextSchema {
  // rt.v1.LaunchSpec with the new field.
  static const google::protobuf::Descriptor* Find(const char* message) {
    static google::protobuf::DescriptorPool pool(v1::LaunchSpec::descriptor()->file()->pool());
    static const google::protobuf::FileDescriptor* file = [] {
      google::protobuf::FileDescriptorProto next;
      next.set_name("next.proto");
      next.set_syntax("proto3");
      next.add_dependency(v1::LaunchSpec::descriptor()->file()->name());
      next.add_dependency(v1::Fence::descriptor()->file()->name());
      google::protobuf::DescriptorProto* launch = next.add_message_type();
      launch->set_name("NextLaunch");
      for (const char* name : {"fence", "argv"})
        v1::LaunchSpec::descriptor()->FindFieldByName(name)->CopyTo(launch->add_field());
      google::protobuf::FieldDescriptorProto* added = launch->add_field();
      added->set_name("nice_level");
      added->set_number(1'000);
      added->set_type(google::protobuf::FieldDescriptorProto::TYPE_INT32);
      added->set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
      return pool.BuildFile(next);
    }();
    const auto* found = file->FindMessageTypeByName(message);
    return found != nullptr ? found
                            : v1::Fence::descriptor()->file()->FindMessageTypeByName(message);
  }
};

// Gives each member another value than its default.
template <class V>
void Fill(V& value, uint64_t& next) {
  if constexpr (std::same_as<V, DurableAfter>) value = DurableAfter::kLocal;
  else if constexpr (std::same_as<V, Observed::Phase>) value = Observed::Phase::kExited;
  else if constexpr (std::same_as<V, Owner::Kind>) value = Owner::Kind::kTrial;
  else if constexpr (std::same_as<V, bool>) value = !value;
  else if constexpr (std::same_as<V, std::string>) value = "text " + std::to_string(++next);
  else if constexpr (codec::IsStruct<V>)
    codec::Shape<V>::Each(value, [&](const char*, auto& member) { Fill(member, next); });
  else if constexpr (codec::IsMap<V>) Fill(value["key"], next);
  else if constexpr (std::same_as<V, NodeId>) value = NodeId{++next};
  else if constexpr (codec::IsScalar<V>) value = static_cast<V>(++next);
  else {
    typename V::value_type one{};
    Fill(one, next);
    value.insert(value.end(), one);
  }
}
template <class T>
T Filled() {
  T value;
  uint64_t next = 0;
  Fill(value, next);
  return value;
}

// The names of the members, as they are in the proto, and those of the message.
template <class T>
void CheckSameFields(const google::protobuf::Descriptor& message) {
  std::set<std::string> members, fields;
  T value;
  ForEachField(value, [&](const char* name, const auto&) {
    members.insert(codec::WireNameOf<T>(name));
  });
  for (int i = 0; i < message.field_count(); ++i) fields.insert(message.field(i)->name());
  CHECK(members == fields);
}

// What the generated code reads from the bytes, written again by it.
template <class Message>
std::string ThroughProto(const std::string& bytes) {
  Message message;
  REQUIRE(message.ParseFromString(bytes));
  REQUIRE(message.GetReflection()->GetUnknownFields(message).empty());
  return message.SerializeAsString();
}

std::string RecordedBytes(const std::string& message) {
  const auto text = ReadFile(RT_RECORDED_WIRE "/0.1.0/wire.json");
  REQUIRE(text.ok());
  const auto json = Json::Parse(*text);
  REQUIRE(json.ok());
  return *FromHex(json->Find("messages")->Find(message)->AsString());
}

}  // namespace

TEST_CASE("the launch record and what is observed have the fields of their protos, and no others") {
  CheckSameFields<LaunchSpec>(*v1::LaunchSpec::descriptor());
  CheckSameFields<Observed>(*v1::Observed::descriptor());
}

TEST_CASE("every field of a launch record travels, as the generated code reads it") {
  const LaunchSpec spec = Filled<LaunchSpec>();
  const auto read = DecodeLaunch(ThroughProto<v1::LaunchSpec>(EncodeLaunch(spec)));
  REQUIRE(read.ok());
  CHECK(*read == spec);
  v1::LaunchSpec message;
  REQUIRE(message.ParseFromString(EncodeLaunch(spec)));
  CHECK(message.checkpoint_parts(0) == spec.checkpoint_shards[0]);
  CHECK(message.watchdog_min_ms() == spec.watchdog_min);
  CHECK(message.resources().custom().at("key") == spec.resources.custom.at("key"));
}

TEST_CASE("every field of what is observed travels, as the generated code reads it") {
  const Observed observed = Filled<Observed>();
  const auto read = DecodeObserved(ThroughProto<v1::Observed>(EncodeObserved(observed)));
  REQUIRE(read.ok());
  CHECK(*read == observed);
  CHECK_FALSE(DecodeObserved("\x0a\x7f").ok());
}

TEST_CASE("a launch record that release 0.1.0 wrote is read, field by field") {
  const auto spec = DecodeLaunch(RecordedBytes("rt.v1.LaunchSpec"));
  REQUIRE(spec.ok());
  v1::LaunchSpec message;
  REQUIRE(message.ParseFromString(RecordedBytes("rt.v1.LaunchSpec")));
  message.set_durable_after(0);  // What is unknown here becomes the store.
  CHECK(spec->durable_after == DurableAfter::kStore);
  v1::LaunchSpec again;
  REQUIRE(again.ParseFromString(EncodeLaunch(*spec)));
  CHECK(again.DebugString() == message.DebugString());
}

TEST_CASE("a field that a next release adds travels, and this release skips it") {
  const NextLaunch sent{.fence = {{Owner::Of(JobId{3}), 1, 1}, 0}, .argv = {"a"}, .nice_level = -5};
  codec::WireWriter out;
  codec::Encode<NextSchema>(out, sent);
  const std::string bytes = out.Take();
  NextLaunch received;
  codec::SetZero(received);
  codec::WireReader in(bytes);
  codec::Decode<NextSchema>(in, received);
  CHECK_FALSE(in.failed());
  CHECK(received == sent);
  const auto here = DecodeLaunch(bytes);
  REQUIRE(here.ok());
  CHECK(here->argv == sent.argv);
  CHECK(codec::ToJson(sent).GetInt("nice_level") == -5);
  NextLaunch from_file;
  codec::FromJson(codec::ToJson(sent), from_file);
  CHECK(from_file == sent);
}

TEST_CASE("a launch file keeps every field, and one of release 0.1.0 is read") {
  worker::LaunchBody body;
  static_cast<LaunchSpec&>(body) = Filled<LaunchSpec>();
  body.token = "secret";
  body.started_at = 7;
  const auto text = Json::Parse(worker::ToJson(body).Dump());
  REQUIRE(text.ok());
  const worker::LaunchBody read = worker::LaunchBodyFrom(body.fence, *text);
  CHECK(static_cast<const LaunchSpec&>(read) == static_cast<const LaunchSpec&>(body));
  CHECK(read.token == "secret");
  CHECK(read.started_at == 7);
  const auto old = Json::Parse(
      R"({"argv":["python3","t.py"],"env":{"A":"1"},"bundle":"b3:1","cwd":"","inputs":[)"
      R"({"manifest":"b3:2","env":"RT_TRAINABLE"}],"checkpoint":"","checkpoint_parts":["b3:3"],)"
      R"("checkpoint_held":true,"durable_after":2,"params":"{}","gpu_uuids":["g"],"world_size":2,)"
      R"("port":0,"keeps_port":true,"iteration_base":3.0,"time_total_base_s":1.5,"control":"{}",)"
      R"("name":"t","report_regex":"","log_patterns":["x"],"watchdog_factor":4.0,)"
      R"("watchdog_min":9000,"watchdog_dump":true,"memory":1024,"cpu_limit":20000,)"
      R"("token":"secret","started_at":7})");
  REQUIRE(old.ok());
  const worker::LaunchBody before = worker::LaunchBodyFrom(body.fence, *old);
  CHECK(before.fence == body.fence);
  CHECK(before.inputs == std::vector<InputFile>{{"b3:2", "RT_TRAINABLE"}});
  CHECK(before.checkpoint_shards == std::vector<std::string>{"b3:3"});
  CHECK(before.checkpoint_on_replicas);
  CHECK(before.durable_after == DurableAfter::kLocal);
  CHECK(before.world_size == 2);
  CHECK(before.watchdog_min == 9'000);
  CHECK(before.limits().memory == 1'024);
  CHECK(before.limits().cpu == 20'000);
  CHECK(before.token == "secret");
}

}  // namespace rt
