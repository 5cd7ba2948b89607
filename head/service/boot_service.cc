// What machines get before they are nodes: the programs, the files of the cluster (`file_mounts`),
// and the setup commands of their pool.
#include <grpcpp/alarm.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "common/base/busy.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "head/core/core.h"
#include "head/core/pools.h"
#include "head/service/services.h"
#include "rt/v1/boot.grpc.pb.h"

namespace rt {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;
using SharedBytes = std::shared_ptr<const std::string>;

// The pool of a node, or of a token with which a node could join now; the token is not used up.
absl::StatusOr<std::string> PoolOf(const Core& core, const Identity& who) {
  const State& state = core.world.state;
  if (who.kind != "join") {
    RT_ASSIGN_OR_RETURN(const NodeId id, NodeOf(who));
    const auto node = state.nodes.find(id);
    return node == state.nodes.end() ? "" : node->second.pool;
  }
  RT_ASSIGN_OR_RETURN(const Token token,
                      FindTokenFor(state, {who.name, ""}, core.soft.last_step_at));
  if (token.role != "worker")
    return absl::PermissionDeniedError(
        "this token is for a person; a machine needs one for a "
        "worker");
  if (token.machine != 0) RT_RETURN_IF_ERROR(CheckMayJoin(state, token.machine));
  return token.pool;
}

// `done` is called on the loop's thread.
void FindPool(Edge& edge, const Identity& who,
              std::function<void(const absl::StatusOr<std::string>&)> done) {
  auto pool = std::make_shared<absl::StatusOr<std::string>>(absl::UnknownError(""));
  edge.loop.Query([pool, who](const Core& core) { *pool = PoolOf(core, who); },
                  [pool, done = std::move(done)](const absl::Status& status) {
                    done(status.ok() ? *pool : status);
                  });
}

// Who fetches the programs at the moment.
class Readers {
 public:
  absl::Status Add(const std::string& who) {
    std::lock_guard lock(mutex_);
    const auto own = by_identity_.find(who);
    if (own != by_identity_.end() && own->second >= limits::kProgramsReadersOfOneMax)
      return BusyError("the programs are being sent to this machine already");
    if (count_ >= limits::kProgramsReadersMax)
      return BusyError(
          "the programs are being sent to as many machines as this head serves at once");
    ++count_;
    ++by_identity_[who];
    return absl::OkStatus();
  }
  void Remove(const std::string& who) {
    std::lock_guard lock(mutex_);
    --count_;
    if (--by_identity_[who] == 0) by_identity_.erase(who);
  }

 private:
  std::mutex mutex_;
  size_t count_ = 0;
  std::map<std::string, size_t> by_identity_;
};

// The tag of ProgramsPiece.data and its length in five bytes, whatever it is.
std::string PrefixOf(size_t length) {
  std::string prefix(1, '\x0a');
  for (int i = 0; i < 5; ++i) {
    prefix += static_cast<char>((length & 0x7f) | (i < 4 ? 0x80 : 0));
    length >>= 7;
  }
  return prefix;
}

// A message with a piece of the archive. It holds the bytes until they are sent, and copies none.
grpc::ByteBuffer PieceOf(const SharedBytes& bytes, size_t offset, size_t size) {
  auto* kept = new SharedBytes(bytes);
  void* data = const_cast<char*>(bytes->data() + offset);  // gRPC takes no const; it only reads.
  const grpc::Slice slices[] = {
      grpc::Slice(PrefixOf(size)),
      grpc::Slice(
          data, size, [](void* held) { delete static_cast<SharedBytes*>(held); }, kept)};
  return grpc::ByteBuffer(slices, 2);
}

// One answer on its way. A reader that is too slow is cut off, so that it keeps no other waiting.
class Transfer final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  using Source = std::function<absl::StatusOr<SharedBytes>()>;
  // `source` may block.
  Transfer(Edge& edge, Readers& readers, Context& context, Source source)
      : edge_(edge), readers_(readers), source_(std::move(source)),
        open_(std::make_shared<Open>(&context)) {}

  void Begin(const absl::StatusOr<Identity>& who) {
    absl::Status admitted = who.status();
    if (admitted.ok()) admitted = readers_.Add(who->kind + "/" + who->name);
    if (!admitted.ok()) return Finish(ToGrpc(admitted));
    reader_ = who->kind + "/" + who->name;
    const auto until =
        std::chrono::system_clock::now() + std::chrono::milliseconds(limits::kProgramsReadMax);
    alarm_.Set(until, [open = open_](bool is_late) {
      std::lock_guard lock(open->mutex);
      if (is_late && open->context != nullptr) open->context->TryCancel();
    });
    FindPool(edge_, *who, [this](const absl::StatusOr<std::string>& pool) {
      if (!pool.ok()) return Finish(ToGrpc(pool.status()));
      edge_.io([this] {
        if (const absl::Status read = Read(); !read.ok()) Finish(ToGrpc(read));
        else NextPiece();
      });
    });
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    NextPiece();
  }
  void OnDone() override {
    {
      std::lock_guard lock(open_->mutex);
      open_->context = nullptr;
    }
    if (!reader_.empty()) readers_.Remove(reader_);
    delete this;
  }

 private:
  struct Open {  // The alarm may ring while the call ends.
    explicit Open(Context* call) : context(call) {}
    std::mutex mutex;
    Context* context;
  };
  absl::Status Read() {
    RT_ASSIGN_OR_RETURN(bytes_, source_());
    return absl::OkStatus();
  }
  void NextPiece() {
    const size_t size = std::min(limits::kProgramsPieceBytes, bytes_->size() - offset_);
    if (size == 0) return Finish(grpc::Status::OK);
    piece_ = PieceOf(bytes_, offset_, size);
    offset_ += size;
    StartWrite(&piece_);
  }

  Edge& edge_;
  Readers& readers_;
  const Source source_;
  const std::shared_ptr<Open> open_;
  std::string reader_;  // Empty: was refused.
  grpc::Alarm alarm_;
  SharedBytes bytes_;
  size_t offset_ = 0;  // What was sent.
  grpc::ByteBuffer piece_;
};

using Methods =
    v1::BootService::WithRawCallbackMethod_Programs<v1::BootService::WithRawCallbackMethod_Mount<
        v1::BootService::WithCallbackMethod_Setup<v1::BootService::Service>>>;

class BootService final : public Methods {
 public:
  explicit BootService(Edge& edge) : edge_(edge) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Programs(Context* context,
                                                       const grpc::ByteBuffer*) override {
    return Send(context, "BootService/Programs", [this]() -> absl::StatusOr<SharedBytes> {
      const auto programs = edge_.settings.boot().programs;
      if (programs) return programs();
      return absl::FailedPreconditionError("this head serves no programs: its machines have them");
    });
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Mount(Context* context,
                                                    const grpc::ByteBuffer* bytes) override {
    v1::MountRequest request;
    grpc::ByteBuffer copy(*bytes);
    const bool is_read =
        grpc::SerializationTraits<v1::MountRequest>::Deserialize(&copy, &request).ok();
    return Send(context, "BootService/Mount",
                [this, digest = is_read ? request.digest() : ""]() -> absl::StatusOr<SharedBytes> {
                  const auto mount = edge_.settings.boot().mount;
                  if (mount) return mount(digest);
                  return absl::NotFoundError("this head has no files for its machines");
                });
  }
  Reactor* Setup(Context* context, const v1::Empty*, v1::SetupReply* reply) override {
    return Unary(edge_, context, "BootService/Setup", [&](auto& who, Reactor* reactor) {
      FindPool(edge_, who, [this, reply, reactor](const absl::StatusOr<std::string>& pool) {
        const BootParts boot = edge_.settings.boot();
        if (boot.mounts && pool.ok()) {
          for (const auto& [listing, digest] : boot.mounts()) {
            v1::SetupMount* one = reply->add_mounts();
            one->set_listing(listing);
            one->set_digest(digest);
          }
        }
        const auto commands = boot.setup_commands.find(pool.ok() ? *pool : "");
        if (commands != boot.setup_commands.end())
          for (const std::string& command : commands->second) reply->add_commands(command);
        reactor->Finish(ToGrpc(pool.status()));
      });
    });
  }

 private:
  Transfer* Send(Context* context, const char* method, Transfer::Source source) {
    auto* transfer = new Transfer(edge_, readers_, *context, std::move(source));
    transfer->Begin(Admit(edge_, *context, method));
    return transfer;
  }

  Edge& edge_;
  Readers readers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBootService(Edge& edge) {
  return std::make_unique<BootService>(edge);
}

}  // namespace rt
