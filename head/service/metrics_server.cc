#include "head/service/metrics_server.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "common/base/status.h"
#include "common/rpc/tcp_socket.h"
#include "head/service/metrics_page.h"

namespace rt {
namespace {

constexpr size_t kConnectionsMax = 256;
constexpr size_t kHandshakesMax = kConnectionsMax / 2;  // Under a flood, more are answered.
constexpr time_t kSecondsMax = 5;  // For the answer to be taken; the listener bounds the rest.
constexpr size_t kRequestBytesMax = 8 << 10;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* tls) const { SSL_free(tls); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;
using TlsContext = std::unique_ptr<SSL_CTX, Free>;
using Tls = std::unique_ptr<SSL, Free>;

Bio BioOf(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// The chain was checked; of the leaf it is asked whose it is.
int CheckPeer(int chain_ok, X509_STORE_CTX* store) {
  if (chain_ok == 0 || X509_STORE_CTX_get_error_depth(store) > 0) return chain_ok;
  Bio text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(text.get(), X509_STORE_CTX_get_current_cert(store));
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  auto who = IdentityOf(std::string(bytes, static_cast<size_t>(size)));
  const bool is_person = who.ok() && (who->role == "viewer" || who->role == "user" ||
                                      who->role == "admin");
  if (is_person) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

bool Configure(SSL_CTX& context, const Credentials& credentials) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  Bio own = BioOf(credentials.own.certificate_pem), key_text = BioOf(credentials.own.key_pem);
  Bio ca_text = BioOf(credentials.ca_pem);
  Certificate certificate(PEM_read_bio_X509(own.get(), nullptr, nullptr, nullptr));
  Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  Certificate ca(PEM_read_bio_X509(ca_text.get(), nullptr, nullptr, nullptr));
  if (!certificate || !key || !ca) return false;
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, CheckPeer);
  return SSL_CTX_use_certificate(&context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(&context, key.get()) == 1 &&
         X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), ca.get()) == 1;
}

void SetBlocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  const timeval most{.tv_sec = kSecondsMax, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

// The first line of a request whose headers have all arrived.
std::optional<std::string> ReadRequest(SSL* tls) {
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    char bytes[1'024];
    const int count = SSL_read(tls, bytes, sizeof bytes);
    if (count <= 0 || request.size() > kRequestBytesMax) return std::nullopt;
    request.append(bytes, static_cast<size_t>(count));
  }
  return request.substr(0, request.find("\r\n"));
}

std::string Response(const char* status, const std::string& body) {
  return std::string("HTTP/1.1 ") + status +
         "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

class Server final : public MetricsServer {
 public:
  Server(HeadLoop& loop, const Settings& settings, PortFacts ports)
      : loop_(loop), settings_(settings), ports_(std::move(ports)),
        context_(SSL_CTX_new(TLS_server_method())) {}
  ~Server() override {
    if (listener_ != nullptr) listener_->Stop();
    std::unique_lock lock(mutex_);
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
    ended_.wait(lock, [this] { return open_.empty(); });
  }

  absl::Status Listen(const Credentials& credentials, const std::string& address) {
    if (context_ == nullptr || !Configure(*context_, credentials))
      return absl::InternalError("metrics: cannot load the certificate");
    auto listener = PortListener::Listen({.address = address, .connections_max = kConnectionsMax,
                                          .handshakes_max = kHandshakesMax});
    if (!listener.ok()) return Annotate(listener.status(), "metrics: cannot listen on " + address);
    listener_ = std::move(*listener);
    listener_->Start([this](int fd) {
      {
        std::lock_guard lock(mutex_);
        open_.insert(fd);
      }
      std::thread([this, fd] {
        Serve(fd);
        std::lock_guard lock(mutex_);
        open_.erase(fd);
        ::shutdown(fd, SHUT_RDWR);  // The listener has a duplicate.
        ::close(fd);
        ended_.notify_all();
      }).detach();
    });
    return absl::OkStatus();
  }
  int port() const override { return listener_->port(); }

 private:
  // Until the request is there the listener may end the connection at any time, and so unblocks us.
  void Serve(int fd) {
    SetBlocking(fd);
    const Tls tls(SSL_new(context_.get()));
    if (tls == nullptr || SSL_set_fd(tls.get(), fd) != 1 || SSL_accept(tls.get()) != 1) return;
    const std::optional<std::string> request = ReadRequest(tls.get());
    if (!request) return;
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return;
    const std::shared_ptr<PeerConnection> connection = listener_->Find(PeerName(peer));
    if (connection == nullptr) return;
    connection->admitted = true;
    const bool is_get = request->starts_with("GET ");
    const bool is_page = request->starts_with("GET /metrics ") ||
                         request->starts_with("GET /metrics?");
    const std::string response = is_page  ? Response("200 OK", Page())
                                 : is_get ? Response("404 Not Found", "only /metrics is here\n")
                                          : Response("405 Method Not Allowed", "only GET\n");
    SSL_write(tls.get(), response.data(), static_cast<int>(response.size()));
    SSL_shutdown(tls.get());
  }
  std::string Page() {
    struct Seen {
      std::string page;
      GpuMetrics gpus;
    };
    auto seen = std::make_shared<Seen>();
    auto read = std::make_shared<std::promise<void>>();
    std::future<void> done = read->get_future();
    loop_.Query(
        [this, seen](const Core& core) {
          *seen = {MetricsPage(core, settings_.FactsNow(loop_)), GpuMetrics::Of(core)};
        },
        [read](const absl::Status&) { read->set_value(); });
    done.wait();
    std::map<std::string, PortCounters> ports = ports_();
    ports["metrics"] = listener_->counters();
    return seen->page + seen->gpus.Text() + PortMetrics(ports);
  }

  HeadLoop& loop_;
  const Settings& settings_;
  const PortFacts ports_;
  const TlsContext context_;
  std::unique_ptr<PortListener> listener_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<int> open_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    HeadLoop& loop, const Settings& settings, const Credentials& credentials,
    const std::string& host, int port, PortFacts ports) {
  auto server = std::make_unique<Server>(loop, settings, std::move(ports));
  RT_RETURN_IF_ERROR(server->Listen(credentials, host + ":" + std::to_string(port)));
  return server;
}

}  // namespace rt
