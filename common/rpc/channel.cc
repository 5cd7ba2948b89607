#include "common/rpc/channel.h"

#include <grpc/grpc_security_constants.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstdlib>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/freed_memory.h"
#include "common/rpc/port_limits.h"

namespace rt {
namespace {

// A ping every 2 s, dead after 4 s without an answer: a peer that is stopped for 3 s stays
// connected, a vanished one is found well before TCP would. Leases, not pings, decide who is lost.
constexpr int kKeepaliveTimeMs = 2'000;
constexpr int kKeepaliveTimeoutMs = 4'000;
static_assert(kServerUserTimeout == kKeepaliveTimeoutMs);
// Pings that the server tolerates: everybody here is authenticated, nobody is struck off.
constexpr int kPingIntervalMinMs = 100;
// A head that restarts is found again within half a second.
constexpr int kReconnectFirstMs = 50;
constexpr int kReconnectMaxMs = 500;
constexpr int kConnectTimeoutMs = 5'000;
// A status message, its hint and its position, percent-encoded.
constexpr int kMetadataBytesMax = 64 << 10;
// Read at once from a connection: every stream that is begun in it is begun before anybody can say
// that it was one too many.
constexpr int kReadBytesMax = 16 << 10;

// "10.0.0.1:7070" of the first address of "host:port", in that family; empty when there is none.
std::string Resolve(const std::string& address, int family) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return "";
  char text[NI_MAXHOST] = "";
  const bool known = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr,
                                   0, NI_NUMERICHOST) == 0;
  ::freeaddrinfo(found);
  if (!known) return "";
  const std::string numeric = family == AF_INET6 ? "[" + std::string(text) + "]" : text;
  return numeric + address.substr(colon);
}

// gRPC takes several addresses as numbers of one family only. A name that cannot be resolved now is
// left out; with one address, or none that can, gRPC resolves it itself, again and again.
std::string TargetOf(const std::string& addresses) {
  const std::vector<std::string> each = Split(addresses, ',');
  if (each.size() < 2) return addresses;
  for (int family : {AF_INET, AF_INET6}) {
    std::vector<std::string> numeric;
    for (const std::string& address : each)
      if (std::string found = Resolve(address, family); !found.empty()) numeric.push_back(found);
    if (!numeric.empty())
      return (family == AF_INET ? "ipv4:" : "ipv6:") + Join(numeric, ",");
  }
  return each.front();
}

}  // namespace

void PrepareGrpc() {
  // Synchronous clients drop healthy connections without it: shared toolchain notes, keepalive.
  ::setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", 0);
  // Its own lines would mix with ours on standard error; every failure comes back as a status.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  KeepFreedMemory();
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials,
                                           const std::string& cluster_id, bool bulk) {
  return MakeNamedChannel(address, credentials, HeadName(cluster_id), bulk);
}

grpc::ChannelArguments ClientArguments(bool bulk) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  // Callers repeat calls themselves. With gRPC 1.51's own retries a stream that is cancelled before
  // its first message has come, and while a message is being sent, may never end.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The head is named by address; a proxy of the environment is for other traffic.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(bulk ? limits::kChunkMessageBytesMax : limits::kMessageBytesMax));
  arguments.SetMaxSendMessageSize(
      static_cast<int>(bulk ? limits::kChunkMessageBytesMax : limits::kMessageBytesMax));
  if (bulk) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

std::shared_ptr<grpc::Channel> MakeNamedChannel(const std::string& address,
                                                const Credentials& credentials,
                                                const std::string& server_name, bool bulk) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = credentials.ca_pem;
  tls.pem_private_key = credentials.own.key_pem;
  tls.pem_cert_chain = credentials.own.certificate_pem;
  grpc::ChannelArguments arguments = ClientArguments(bulk);
  arguments.SetSslTargetNameOverride(server_name);
  return grpc::CreateCustomChannel(TargetOf(address), grpc::SslCredentials(tls), arguments);
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const Credentials& credentials) {
  grpc::SslServerCredentialsOptions tls(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = credentials.ca_pem;
  tls.pem_key_cert_pairs.push_back({credentials.own.key_pem, credentials.own.certificate_pem});
  return grpc::SslServerCredentials(tls);
}

void ConfigureServer(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(limits::kHandshakeMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits::kStreamsMax));
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytesMax);
  grpc::ResourceQuota quota("server");
  quota.Resize(static_cast<size_t>(limits::kServerBytesMax));
  quota.SetMaxThreads(limits::kServerThreadsMax);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  // One server carries control and bytes; the control services check their own sizes.
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kChunkMessageBytesMax));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kChunkMessageBytesMax));
}

absl::StatusOr<Identity> KnownPeers::Find(const grpc::AuthContext& context) {
  auto certificates = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!context.IsPeerAuthenticated() || certificates.empty()) return PeerIdentity(context);
  const std::string_view pem(certificates[0].data(), certificates[0].size());
  {
    std::lock_guard lock(mutex_);
    auto found = known_.find(pem);
    if (found != known_.end()) return found->second;
  }
  RT_ASSIGN_OR_RETURN(Identity identity, PeerIdentity(context));
  std::lock_guard lock(mutex_);
  if (known_.size() >= limits::kKnownPeersMax) known_.clear();
  known_.emplace(pem, identity);
  return identity;
}

absl::StatusOr<Identity> PeerIdentity(const grpc::AuthContext& context) {
  auto certificates = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!context.IsPeerAuthenticated() || certificates.empty())
    return absl::UnauthenticatedError("the peer showed no certificate");
  return IdentityOf(std::string(certificates[0].data(), certificates[0].size()));
}

}  // namespace rt
