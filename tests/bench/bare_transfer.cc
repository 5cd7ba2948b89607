// What any transfer of a checkpoint must do and nothing else, to compare ours with: one thread
// reads a file, hashes it and sends it over TLS 1.3 on a loopback socket, another receives it,
// hashes it and writes it.
//   bench_bare_transfer FROM TO [sync]    with `sync`, one fdatasync at the end; prints MiB/s
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "common/base/check.h"
#include "common/cas/digest.h"
#include "common/rpc/identity.h"

namespace rt::bench {
namespace {

constexpr size_t kPiece = 4u << 20;

SSL_CTX* ServerContext() {
  const KeyPair ca = *CreateCa("bench");
  const KeyPair own =
      *IssueKeyPair(ca, {.cluster_id = "bench", .kind = "head", .role = "head"}, 3'600'000, {});
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  BIO* certificate = BIO_new_mem_buf(own.certificate_pem.data(), -1);
  BIO* key = BIO_new_mem_buf(own.key_pem.data(), -1);
  X509* parsed = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
  EVP_PKEY* parsed_key = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
  RT_CHECK(SSL_CTX_use_certificate(context, parsed) == 1);
  RT_CHECK(SSL_CTX_use_PrivateKey(context, parsed_key) == 1);
  X509_free(parsed);
  EVP_PKEY_free(parsed_key);
  BIO_free(certificate);
  BIO_free(key);
  return context;
}

void Receive(int listener, SSL_CTX* context, const char* path, bool sync) {
  const int socket = ::accept(listener, nullptr, nullptr);
  SSL* tls = SSL_new(context);
  SSL_set_fd(tls, socket);
  RT_CHECK(SSL_accept(tls) == 1);
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  RT_CHECK(file >= 0);
  std::string bytes(kPiece, '\0');
  for (bool open = true; open;) {
    size_t filled = 0;
    while (filled < bytes.size()) {
      const int got = SSL_read(tls, bytes.data() + filled, static_cast<int>(kPiece - filled));
      open = got > 0;
      if (!open) break;
      filled += static_cast<size_t>(got);
    }
    (void)Digest(std::string_view(bytes).substr(0, filled));
    RT_CHECK(::write(file, bytes.data(), filled) == static_cast<ssize_t>(filled));
  }
  RT_CHECK(!sync || ::fdatasync(file) == 0);
  ::close(file);
  SSL_free(tls);
  ::close(socket);
}

void Send(const sockaddr_in& address, const char* path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  RT_CHECK(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* tls = SSL_new(context);
  SSL_set_fd(tls, socket);
  RT_CHECK(SSL_connect(tls) == 1);
  const int file = ::open(path, O_RDONLY);
  RT_CHECK(file >= 0);
  std::string bytes(kPiece, '\0');
  for (ssize_t got; (got = ::read(file, bytes.data(), bytes.size())) > 0;) {
    (void)Digest(std::string_view(bytes).substr(0, static_cast<size_t>(got)));
    RT_CHECK(SSL_write(tls, bytes.data(), static_cast<int>(got)) == got);
  }
  ::close(file);
  SSL_shutdown(tls);
  SSL_free(tls);
  SSL_CTX_free(context);
  ::close(socket);
}

int Run(const char* from, const char* to, bool sync) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  RT_CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  RT_CHECK(::listen(listener, 1) == 0);
  RT_CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  SSL_CTX* context = ServerContext();
  const auto begin = std::chrono::steady_clock::now();
  std::thread receiver([&] { Receive(listener, context, to, sync); });
  Send(address, from);
  receiver.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const int file = ::open(to, O_RDONLY);
  const double mib = static_cast<double>(::lseek(file, 0, SEEK_END)) / (1 << 20);
  ::close(file);
  ::close(listener);
  SSL_CTX_free(context);
  std::printf("%.1f\n", mib / took.count());
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main(int count, char** arguments) {
  if (count < 3) return 2;
  return rt::bench::Run(arguments[1], arguments[2],
                        count > 3 && std::strcmp(arguments[3], "sync") == 0);
}
