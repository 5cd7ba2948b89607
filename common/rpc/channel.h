// Channels, servers and statuses: the only place that knows how gRPC is configured here.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "common/rpc/identity.h"

namespace rt {

// Of a call of people and drivers: the newest head's epoch that they know; of its answer: this
// head's.
inline constexpr char kEpochHeader[] = "rt-epoch";

// Sets the environment that gRPC needs (backup poll interval) before the first channel, and how
// much freed memory is kept for the next chunks of a stream. Called by every main.
void PrepareGrpc();

// mTLS to the head at "host:port", or at one of several, "host:port,host:port": they are tried in
// turn, again and again, whenever the one in use is gone. The head's certificate is checked for the
// name head.<cluster id>.rt, so addresses may change. `bulk` gives a connection of its own for
// streams of bytes.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials,
                                           const std::string& cluster_id, bool bulk);
// The same to whoever serves under that name in its certificate (identity.h).
std::shared_ptr<grpc::Channel> MakeNamedChannel(const std::string& address,
                                                const Credentials& credentials,
                                                const std::string& server_name, bool bulk);
// The arguments that the two functions above give to a channel. Public for tests that use no
// certificates.
grpc::ChannelArguments ClientArguments(bool bulk);
// How long what was sent to a client may stay unacknowledged before its connection is over.
inline constexpr Millis kServerUserTimeout = 4'000;
// mTLS, client certificate demanded; limits and keepalive set.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const Credentials& credentials);
void ConfigureServer(grpc::ServerBuilder& builder);
// The peer's identity, from its verified certificate.
absl::StatusOr<Identity> PeerIdentity(const grpc::AuthContext& context);

// PeerIdentity for servers: reading a certificate takes 300 us, and every call asks. What a
// certificate says never changes; its chain and dates were checked by the handshake. Thread-safe.
class KnownPeers {
 public:
  absl::StatusOr<Identity> Find(const grpc::AuthContext& context);

 private:
  std::mutex mutex_;
  std::map<std::string, Identity, std::less<>> known_;  // By PEM text.
};

// Both ways keep the hint and the position (as binary trailing details). CANCELLED arrives as
// UNAVAILABLE: it is what a server that is restarted says to the calls under way.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace rt
