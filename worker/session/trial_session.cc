// What a message on the trial socket means: docs/trial-protocol.md in code.
#include <optional>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/tree.h"
#include "common/run/clock.h"
#include "worker/session/socket_limits.h"
#include "worker/session/trial_socket.h"

namespace rt::worker {
namespace {

constexpr size_t kKeyBytesMax = 64;

Json ErrorJson(const absl::Status& why) {
  const std::string hint = HintOf(why);
  return Json::MakeObject({{"code", absl::StatusCodeToString(why.code())},
                           {"message", MessageOf(why)},
                           {"hint", hint.empty() ? Json() : Json(hint)}});
}

Json DriverReply(const Json& id, const absl::StatusOr<Json>& result) {
  Json reply = Json::MakeObject({{"op", "driver"}, {"id", id}, {"ok", result.ok()}});
  if (result.ok()) {
    reply.Set("result", *result);
  } else {
    reply.Set("error", ErrorJson(result.status()));
  }
  return reply;
}

bool SameToken(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  }
  return difference == 0;
}

// `step` says training_iteration, unless the metrics do. nullopt when it is not a number.
std::optional<Json> WithStep(Json metrics, const Json* step) {
  if (step == nullptr || step->is_null()) return metrics;
  if (!step->is_number()) return std::nullopt;
  const bool said = !metrics.is_object() || metrics.Find("training_iteration") != nullptr;
  if (!said) metrics.Set("training_iteration", *step);
  return metrics;
}

}  // namespace

void TrialSocket::Send(Connection& connection, const Json& message) {
  connection.out += message.Dump() + "\n";
}

void TrialSocket::SendLater(uint64_t id, Json message) {
  Post([this, id, message = std::move(message)] {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Send(found->second, message);
    Flush(found->second);
  });
}

void TrialSocket::Refuse(Connection& connection, const absl::Status& why, uint64_t seq) {
  Json reply = Json::MakeObject(
      {{"op", "error"}, {"ok", false}, {"message", MessageOf(why)}, {"error", ErrorJson(why)}});
  if (seq != 0) reply.Set("seq", seq);
  Send(connection, reply);
}

void TrialSocket::HandleLine(Connection& connection, std::string_view line) {
  if (Trim(line).empty()) return;
  auto message = Json::Parse(line);
  if (!message.ok()) return Refuse(connection, message.status(), 0);
  if (!message->is_object()) return Refuse(connection, Invalid("not a JSON object"), 0);
  Dispatch(connection, *message);
}

void TrialSocket::Dispatch(Connection& connection, const Json& message) {
  const std::string op = message.GetString("op");
  if (op == "hello") return Hello(connection, message);
  if (!connection.greeted) return Refuse(connection, Invalid("say hello first"), 0);
  if (op == "report") return Report(connection, message);
  if (op == "driver") return Driver(connection, message);
  if (op == "arrive") return Arrive(connection, message);
  if (op == "missing") return SayMissing(connection, message);
  if (op == "should_stop") {
    const Standing standing = connection.attempt->standing();
    return Send(connection, Json::MakeObject({{"op", "should_stop"},
                                              {"stop", standing.stop || standing.stale},
                                              {"reason", standing.reason}}));
  }
  if (op == "profile") return Profile(connection, message);
  if (op == "paused") return connection.attempt->SaySuspended();
  if (op == "nothing_to_save") return connection.attempt->NothingToSave();
  if (op == "error") {
    connection.attempt->SetError(
        {message.GetString("kind"), message.GetString("message"), message.GetString("traceback")});
    return Send(connection, Json::MakeObject({{"op", "ok"}}));
  }
  if (op == "log") {
    RT_LOG(kInfo) << rt::ToString(connection.attempt->fence()) << ": "
                  << EscapeControl(message.GetString("message").substr(0, limits::kReasonBytesMax));
    return;
  }
  Refuse(connection, Invalid("unknown op \"" + op + "\""), 0);
}

void TrialSocket::Hello(Connection& connection, const Json& message) {
  LiveAttempt& attempt = *connection.attempt;
  const LaunchBody& body = attempt.body();
  if (body.token.empty() || !SameToken(message.GetString("token"), body.token)) {
    return Refuse(connection, absl::PermissionDeniedError("wrong token"), 0);
  }
  connection.greeted = true;
  barriers_.NoteHello(body, SteadyClock());
  auto parsed = [](const std::string& text) {
    auto json = Json::Parse(text);
    return json.ok() ? *json : Json();
  };
  Json hello = Json::MakeObject(
      {{"op", "hello"},
       {"ok", true},
       {"control", parsed(body.control)},
       {"params", parsed(body.params)},
       {"spooled_seq", attempt.spool().last_client_seq()},
       {"iteration_base", body.iteration_base},
       {"time_total_base_s", body.time_total_base_s},
       {"frozen_for_s", ToSeconds(attempt.standing().frozen_for)},
       {"checkpoint_dir", body.checkpoint.empty() ? Json() : Json(attempt.dir().checkpoint())}});
  if (body.takes_profile) hello.Set("takes", Json(Json::Array{"profile"}));
  Send(connection, hello);
}

// A profile line that cannot be taken is dropped: the training needs no profile to continue. The
// daemon's log says why, and so does the program that gets this message, in its own log.
void TrialSocket::Profile(Connection& connection, const Json& message) {
  LiveAttempt& attempt = *connection.attempt;
  const absl::Status taken = attempt.body().takes_profile
                                 ? attempt.profile().AddLine(message)
                                 : Invalid("this attempt's profile is not wanted");
  if (taken.ok() || !attempt.profile().NoteDropped()) return;
  const std::string why = "a profile line was dropped, as later ones may be: " + MessageOf(taken);
  RT_LOG(kWarning) << rt::ToString(attempt.fence()) << ": " << why;
  Send(connection, Json::MakeObject({{"op", "profile_dropped"}, {"message", why}}));
}

void TrialSocket::Report(Connection& connection, const Json& message) {
  LiveAttempt& attempt = *connection.attempt;
  const auto client_seq = static_cast<uint64_t>(std::max<int64_t>(0, message.GetInt("seq")));
  const bool wait = message.GetBool("wait");
  const std::string checkpoint = message.GetString("checkpoint");
  const Json* given = message.Find("metrics");
  if (given == nullptr) return Refuse(connection, Invalid("metrics are missing"), client_seq);
  const std::optional<Json> metrics = WithStep(*given, message.Find("step"));
  if (!metrics) return Refuse(connection, Invalid("step is not a number"), client_seq);
  const std::string key = message.GetString("key");
  if (key.size() > kKeyBytesMax)
    return Refuse(connection, Invalid("a key has at most 64 bytes"), client_seq);
  const ReportOptions options{.client_seq = client_seq,
                              .key = key,
                              .wait = wait,
                              .with_checkpoint = !checkpoint.empty(),
                              .collective = message.GetBool("together")};
  const absl::StatusOr<SpoolRow> row = attempt.AddRow(*metrics, options);
  if (!row.ok()) {
    attempt.NoteRefused(row.status());
    return Refuse(connection, row.status(), client_seq);
  }
  const Wait answer{row->seq, client_seq != 0 ? client_seq : row->seq};
  if (!checkpoint.empty()) return TakeCheckpoint(connection, message, *row, answer);
  if (wait) {
    connection.waits.push_back(answer);
  } else {
    connection.ack = answer.reply_seq;
  }
}

// The other ranks here that wait for this one hear of it at once.
void TrialSocket::Arrive(Connection& connection, const Json& message) {
  const int64_t number = message.GetInt("number");
  if (number <= 0) return Refuse(connection, Invalid("number counts barriers from 1"), 0);
  connection.barrier = static_cast<uint64_t>(number);
  const AttemptId attempt = connection.attempt->fence().attempt;
  barriers_.Arrive(connection.attempt->body(), connection.barrier, SteadyClock());
  for (auto& [id, other] : connections_) {
    if (other.barrier == 0 || other.attempt->fence().attempt != attempt) continue;
    AnswerBarrier(other);
    Flush(other);
  }
}

void TrialSocket::SayMissing(Connection& connection, const Json& message) {
  const auto number = static_cast<uint64_t>(std::max<int64_t>(0, message.GetInt("number")));
  const AttemptId attempt = connection.attempt->fence().attempt;
  const BarrierState state = barriers_.StateOf(attempt, number, SteadyClock());
  const bool wants_stacks = message.GetBool("dump") && !state.missing.empty() && read_stacks_;
  if (!wants_stacks) return Send(connection, BarrierMessage("missing", number, state));
  if (connection.awaits_stacks) return;
  connection.awaits_stacks = true;
  auto job = [this, id = connection.id, attempt, number, state] {
    const std::vector<RankStack> stacks = read_stacks_(attempt, state.missing);
    Post([this, id, message = BarrierMessage("missing", number, state, stacks)] {
      const auto found = connections_.find(id);
      if (found == connections_.end()) return;
      found->second.awaits_stacks = false;
      Send(found->second, message);
      Flush(found->second);
    });
  };
  if (pool_.TrySubmit(std::move(job))) return;
  connection.awaits_stacks = false;
  Send(connection, BarrierMessage("missing", number, state));
}

// With `commit` the trial hears of the commit, else as soon as the files are its own again.
void TrialSocket::TakeCheckpoint(Connection& connection, const Json& message, const SpoolRow& row,
                                 const Wait& wait) {
  AnswerAcks(connection);
  connection.busy = true;
  const bool wants_verdict = message.GetBool("wait");
  const bool wants_commit = message.GetBool("commit");
  const CheckpointFiles files{message.GetString("checkpoint"), message.GetBool("give")};
  auto job = [this, id = connection.id, attempt = connection.attempt, files, row, wait,
              wants_verdict, wants_commit] {
    auto done = [this, id, wait, wants_verdict,
                 wants_commit](const absl::StatusOr<uint64_t>& number) {
      if (wants_commit) return AnswerTaken(id, wait, wants_verdict, number);
      if (!number.ok()) TellLost(id, wait.reply_seq, number.status());
    };
    absl::Status taken = pushes_.Take(attempt, row, files, done);
    if (!taken.ok()) return AnswerTaken(id, wait, wants_verdict, Annotate(taken, "checkpoint"));
    if (!wants_commit) AnswerTaken(id, wait, wants_verdict, 0);
  };
  connection.take = std::move(job);
  TakeIfSpace(connection);
}

// Else at a later visit: when too much of the attempt, or of all of them, is on its way.
void TrialSocket::TakeIfSpace(Connection& connection) {
  if (!connection.take || pushes_.IsFull(connection.attempt->fence())) return;
  if (pool_.TrySubmit(connection.take)) connection.take = nullptr;
}

void TrialSocket::AnswerTaken(uint64_t id, const Wait& wait, bool wants_verdict,
                              const absl::StatusOr<uint64_t>& number) {
  Post([this, id, number, wait, wants_verdict] {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& one = found->second;
    one.busy = false;
    if (!number.ok()) {
      Refuse(one, number.status(), wait.reply_seq);
    } else {
      Json ack = Json::MakeObject({{"op", "ack"}, {"seq", wait.reply_seq}});
      if (*number != 0) ack.Set("checkpoint", *number);
      Send(one, ack);
      if (wants_verdict) one.waits.push_back(wait);
    }
    Process(id);
  });
}

void TrialSocket::TellLost(uint64_t id, uint64_t seq, const absl::Status& why) {
  SendLater(
      id, Json::MakeObject({{"op", "checkpoint_lost"}, {"seq", seq}, {"message", MessageOf(why)}}));
}

void TrialSocket::Driver(Connection& connection, const Json& message) {
  const Json* given = message.Find("id");
  const Json* call = message.Find("call");
  const Json id = given != nullptr ? *given : Json();
  if (call == nullptr || !call->is_object()) {
    return Send(connection, DriverReply(id, Invalid("call must be an object")));
  }
  const std::string op = call->GetString("op");
  if (op == "blob_push_dir") return BlobPush(connection, id, *call);
  if (op == "blob_pull_dir") return BlobPull(connection, id, *call);
  if (!connection.attempt->BeginDriverCall()) {
    return Send(connection,
                DriverReply(id, absl::ResourceExhaustedError(
                                    "more than " + std::to_string(limits::kDriverCallsMax) +
                                    " calls at once; wait for one to end")));
  }
  if (op == "executor_dial") return Dial(connection, id, *call);
  Ask(connection, {id, call->Dump()});
}

// It counts as a call until it is answered.
void TrialSocket::Dial(Connection& connection, const Json& id, const Json& call) {
  auto done = [this, connection_id = connection.id, attempt = connection.attempt,
               id](const absl::StatusOr<Json>& answer) {
    attempt->EndDriverCall();
    SendLater(connection_id, DriverReply(id, answer));
  };
  if (dial_executor_) return dial_executor_(connection.attempt->fence(), call, std::move(done));
  done(absl::UnimplementedError("this daemon reaches no executors on other nodes"));
}

void TrialSocket::Ask(const Connection& connection, DriverAsk ask) {
  const std::string call = ask.call;
  head_.DriverCall(connection.attempt->fence(), call,
                   [this, id = connection.id, attempt = connection.attempt,
                    ask = std::move(ask)](absl::StatusOr<std::string> answer) mutable {
                     const size_t bytes = answer.ok() ? answer->size() : 0;
                     auto json =
                         answer.ok() ? Json::Parse(*answer) : absl::StatusOr<Json>(answer.status());
                     Json reply;
                     if (json.ok() && json->is_object()) {
                       reply = *std::move(json);
                       reply.Set("op", "driver");
                       reply.Set("id", ask.id);
                     } else {
                       reply = DriverReply(ask.id, json);
                     }
                     attempt->EndDriverCall();
                     Post([this, id, bytes, ask = std::move(ask), reply = std::move(reply)] {
                       TakeAnswer(id, ask, reply, bytes);
                     });
                   });
}

// What a program does not read must not fill this daemon's memory, however many calls it made.
void TrialSocket::TakeAnswer(uint64_t id, DriverAsk ask, Json reply, size_t bytes) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (ask.is_repeated) connection.repeats = false;
  Flush(connection);
  const bool is_unread = connection.out.size() > limits::kTrialUnreadMax;
  const bool is_large = bytes > limits::kDriverAnswerKept;
  if (is_unread && is_large && ask.call.size() <= limits::kDriverCallKept) {
    connection.attempt->KeepDriverCall();
    ask.is_repeated = true;
    connection.to_repeat.push_back(std::move(ask));
    return;
  }
  Send(connection, reply);
  Flush(connection);
}

// One at a time, so that each of them is repeated once.
void TrialSocket::AskAgain(Connection& connection) {
  if (connection.to_repeat.empty() || connection.repeats || connection.finishing) return;
  if (connection.out.size() > limits::kTrialUnreadMax) return;
  connection.repeats = true;
  DriverAsk ask = std::move(connection.to_repeat.front());
  connection.to_repeat.pop_front();
  Ask(connection, std::move(ask));
}

void TrialSocket::BlobPush(Connection& connection, const Json& id, const Json& call) {
  TreeOptions options{.honour_ignore_files = call.GetBool("honour_ignore_files")};
  if (const Json* paths = call.Find("exclude"); paths != nullptr && paths->is_array()) {
    for (const Json& path : paths->array()) {
      if (path.is_string()) options.exclude.push_back(path.AsString());
    }
  }
  auto job = [this, connection_id = connection.id, id, options, path = call.GetString("path")] {
    auto tree = StoreTree(store_, path, options);
    SendLater(connection_id, DriverReply(id, tree.ok() ? absl::StatusOr<Json>(Json::MakeObject(
                                                             {{"manifest", tree->manifest},
                                                              {"bytes", tree->bytes},
                                                              {"files", tree->files}}))
                                                       : absl::StatusOr<Json>(tree.status())));
  };
  if (pool_.TrySubmit(std::move(job))) return;
  Send(connection, DriverReply(id, absl::ResourceExhaustedError("too many transfers at once")));
}

void TrialSocket::BlobPull(Connection& connection, const Json& id, const Json& call) {
  auto job = [this, connection_id = connection.id, id, manifest = call.GetString("manifest"),
              target = call.GetString("target")] {
    absl::Status pulled = RestoreTree(store_, manifest, target);
    SendLater(
        connection_id,
        DriverReply(id, pulled.ok() ? absl::StatusOr<Json>(Json::MakeObject({{"target", target}}))
                                    : absl::StatusOr<Json>(pulled)));
  };
  if (pool_.TrySubmit(std::move(job))) return;
  Send(connection, DriverReply(id, absl::ResourceExhaustedError("too many transfers at once")));
}

}  // namespace rt::worker
