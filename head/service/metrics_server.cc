#include "head/service/metrics_server.h"

#include <httplib.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <future>
#include <thread>

#include "common/base/status.h"
#include "head/service/metrics_page.h"

namespace rt {
namespace {

constexpr size_t kThreads = 2;
constexpr time_t kSecondsMax = 5;  // For a request to arrive, or an answer to be taken.

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

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

class Server final : public MetricsServer {
 public:
  Server(HeadLoop& loop, const Settings& settings, const Credentials& credentials)
      : loop_(loop), settings_(settings),
        server_([&](SSL_CTX& context) { return Configure(context, credentials); }) {}
  ~Server() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(const std::string& host, int port) {
    if (!server_.is_valid()) return absl::InternalError("metrics: the certificate is of no use");
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_read_timeout(kSecondsMax);
    server_.set_write_timeout(kSecondsMax);
    server_.set_payload_max_length(0);
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(Page(), "text/plain; version=0.0.4; charset=utf-8");
    });
    port_ = port == 0 ? server_.bind_to_any_port(host) : port;
    const bool bound = port == 0 ? port_ > 0 : server_.bind_to_port(host, port);
    if (!bound)
      return absl::UnavailableError("metrics: cannot listen on " + host + ":" +
                                    std::to_string(port));
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    return absl::OkStatus();
  }
  int port() const override { return port_; }

 private:
  std::string Page() {
    auto page = std::make_shared<std::string>();
    auto read = std::make_shared<std::promise<void>>();
    std::future<void> done = read->get_future();
    loop_.Query(
        [this, page](const Core& core) { *page = MetricsPage(core, settings_.FactsNow(loop_)); },
        [read](const absl::Status&) { read->set_value(); });
    done.wait();
    return *page;
  }

  HeadLoop& loop_;
  const Settings& settings_;
  httplib::SSLServer server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    HeadLoop& loop, const Settings& settings, const Credentials& credentials,
    const std::string& host, int port) {
  auto server = std::make_unique<Server>(loop, settings, credentials);
  RT_RETURN_IF_ERROR(server->Listen(host, port));
  return server;
}

}  // namespace rt
