#include "head/sinks/tensorboard.h"

#include <cstdio>
#include <cstring>
#include <set>

#include "common/base/crc32c.h"

namespace rt::tensorboard {
namespace {

// --- protobuf and TFRecord, as bytes ------------------------------------------------------------

void Varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
template <class T>
void Raw(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // Little endian, as the machines we build for.
  out.append(bytes, sizeof value);
}
void Number(std::string& out, uint32_t field, uint64_t value) {
  Varint(out, field << 3);
  Varint(out, value);
}
void Double(std::string& out, uint32_t field, double value) {
  Varint(out, field << 3 | 1);
  Raw(out, value);
}
void Float(std::string& out, uint32_t field, float value) {
  Varint(out, field << 3 | 5);
  Raw(out, value);
}
void Bytes(std::string& out, uint32_t field, std::string_view bytes) {
  Varint(out, field << 3 | 2);
  Varint(out, bytes.size());
  out += bytes;
}

uint32_t Masked(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string Record(std::string_view data) {
  std::string length;
  Raw<uint64_t>(length, data.size());
  std::string record = length;
  Raw(record, Masked(length));
  record += data;
  Raw(record, Masked(data));
  return record;
}

// Event: wall_time 1, step 2, file_version 3, summary 5.
std::string Event(Millis at, int64_t step, std::string_view summary) {
  std::string event;
  Double(event, 1, ToSeconds(at));
  if (step != 0) Number(event, 2, static_cast<uint64_t>(step));
  Bytes(event, 5, summary);
  return Record(event);
}

// A summary with one value that carries the HParams plugin's data: tag 1, tensor 8, metadata 9.
std::string HParams(Millis at, std::string_view tag, uint32_t field, std::string_view data) {
  std::string content;
  Bytes(content, field, data);
  std::string plugin;
  Bytes(plugin, 1, "hparams");
  Bytes(plugin, 2, content);
  std::string metadata;
  Bytes(metadata, 1, plugin);
  std::string shape, dimension, tensor;
  Number(dimension, 1, 0);  // TensorShapeProto.Dim.size
  Bytes(shape, 2, dimension);
  Number(tensor, 1, 1);  // DT_FLOAT, without elements.
  Bytes(tensor, 2, shape);
  std::string value;
  Bytes(value, 1, tag);
  Bytes(value, 8, tensor);
  Bytes(value, 9, metadata);
  std::string summary;
  Bytes(summary, 1, value);
  return Event(at, 0, summary);
}

// google.protobuf.Value: number 2, string 3, bool 4.
std::string ValueOf(const Json& json) {
  std::string value;
  if (json.is_bool()) {
    Number(value, 4, json.AsBool() ? 1 : 0);
  } else if (json.HasDouble()) {
    Double(value, 2, json.AsDouble());
  } else {
    Bytes(value, 3, json.is_string() ? json.AsString() : json.Dump());
  }
  return value;
}

bool IsBookkeeping(const std::string& key) {
  static const std::set<std::string> keys = {
      "pid", "timestamp", "training_iteration", "iterations_since_restore",
      "timesteps_since_restore", "time_since_restore", "done"};
  return keys.contains(key);
}

// DataType of hparams: string 1, bool 2, float64 3.
uint64_t TypeOf(const Domain& domain) {
  if (domain.values.empty()) return 3;
  if (domain.values.front().is_bool()) return 2;
  for (const Json& value : domain.values)
    if (!value.HasDouble()) return 1;
  return 3;
}

}  // namespace

std::string FileName(Millis created_at) {
  char name[64];
  std::snprintf(name, sizeof name, "events.out.tfevents.%010lld.rt",
                static_cast<long long>(created_at / 1000));
  return name;
}

std::string Header(Millis at) {
  std::string event;
  Double(event, 1, ToSeconds(at));
  Bytes(event, 3, "brain.Event:2");
  return Record(event);
}

std::string Scalars(Millis at, int64_t step, const Json::Object& cells) {
  std::string summary;
  for (const auto& [key, number] : cells) {
    if (!number.HasDouble() || number.is_bool() || IsBookkeeping(key)) continue;
    std::string value;
    Bytes(value, 1, key);
    Float(value, 2, static_cast<float>(number.AsDouble()));
    Bytes(summary, 1, value);
  }
  return summary.empty() ? "" : Event(at, step, summary);
}

// SessionStartInfo: map hparams 1 (key 1, value 2), group_name 4, start_time_secs 5.
std::string SessionStart(Millis at, const std::string& group, const Json& params) {
  std::string start;
  const Json flat = Flatten(params);
  for (const auto& [name, value] : flat.object()) {
    if (value.is_null()) continue;
    std::string entry;
    Bytes(entry, 1, name);
    Bytes(entry, 2, ValueOf(value));
    Bytes(start, 1, entry);
  }
  Bytes(start, 4, group);
  Double(start, 5, ToSeconds(at));
  return HParams(at, "_hparams_/session_start_info", 3, start);
}

// SessionEndInfo: status 1 (success 1, failure 2), end_time_secs 2.
std::string SessionEnd(Millis at, TrialEnd end) {
  std::string info;
  Number(info, 1, end == TrialEnd::kFailed ? 2 : 1);
  Double(info, 2, ToSeconds(at));
  return HParams(at, "_hparams_/session_end_info", 4, info);
}

// Experiment: time_created_secs 3, hparam_infos 4 (name 1, type 4), metric_infos 5 (name 1: tag 2),
// name 6.
std::string Experiment(Millis at, const ExperimentSpec& spec) {
  std::string experiment;
  Double(experiment, 3, ToSeconds(at));
  for (const Variable& variable : spec.space.variables) {
    std::string info;
    Bytes(info, 1, PathText(variable.path));
    Number(info, 4, TypeOf(variable.domain));
    Bytes(experiment, 4, info);
  }
  if (!spec.metric.empty()) {
    std::string name, info;
    Bytes(name, 2, spec.metric);
    Bytes(info, 1, name);
    Bytes(experiment, 5, info);
  }
  Bytes(experiment, 6, spec.name);
  return HParams(at, "_hparams_/experiment", 2, experiment);
}

}  // namespace rt::tensorboard
