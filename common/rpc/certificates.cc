// Certificates of the cluster's own CA, through OpenSSL 3.
#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/identity.h"

namespace rt {
namespace {

template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using Request = std::unique_ptr<X509_REQ, FreeWith<X509_REQ_free>>;
using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>>;

constexpr Millis kCaValidFor = Millis{10} * 365 * 24 * 3600 * 1000;
// Clocks of nodes may lag behind the head's by this much.
constexpr long kClockSkewSeconds = 600;
constexpr std::string_view kScheme = "spiffe://";

absl::Status SslError(std::string_view what) {
  char text[256];
  ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
  ERR_clear_error();
  return absl::InternalError(ToAbsl(std::string(what) + ": " + text));
}

std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

Bio BioOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<Key> ParseKey(const std::string& pem) {
  // No passphrase prompt on a terminal: an encrypted key is an error.
  Key key(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, nullptr, const_cast<char*>("")));
  if (key == nullptr) return SslError("read a private key");
  return key;
}

absl::StatusOr<Certificate> ParseCertificate(const std::string& pem) {
  Certificate certificate(PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) {
    ERR_clear_error();
    return absl::UnauthenticatedError("malformed certificate");
  }
  return certificate;
}

absl::StatusOr<std::string> FormatCertificate(const Certificate& certificate) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate.get()) != 1) return SslError("write a certificate");
  return TextOf(bio);
}

bool IsWord(std::string_view text, std::string_view also) {
  if (text.empty() || text.size() > limits::kNameBytesMax) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

// Names become parts of URIs and of OpenSSL's configuration syntax: only harmless characters.
absl::Status CheckIdentity(const Identity& identity) {
  if (!IsWord(identity.cluster_id, "-") || identity.cluster_id.size() > 50)
    return Invalid("cluster id '" + EscapeControl(identity.cluster_id) +
                   "' is not 1 to 50 letters, digits and dashes");
  const bool is_head = identity.kind == "head";
  if (!is_head && identity.kind != "node" && identity.kind != "user" && identity.kind != "join")
    return Invalid("unknown kind of identity '" + EscapeControl(identity.kind) + "'");
  if (is_head ? !identity.name.empty() && !IsWord(identity.name, "-._")
              : !IsWord(identity.name, "-._@+"))
    return Invalid("the name '" + EscapeControl(identity.name) +
                   "' has characters other than letters, digits and -._@+");
  for (std::string_view role : {"admin", "user", "viewer", "worker", "join", "head"})
    if (identity.role == role) return absl::OkStatus();
  return Invalid("unknown role '" + EscapeControl(identity.role) + "'");
}

absl::StatusOr<std::string> SubjectNames(const Identity& identity,
                                         const std::vector<std::string>& addresses) {
  std::string base = std::string(kScheme) + identity.cluster_id + "/";
  std::string path = identity.kind == "head" ? "head" : identity.kind + "/" + identity.name;
  std::string names = "URI:" + base + path + ",URI:" + base + "role/" + identity.role;
  if (identity.kind == "head") names += ",DNS:" + HeadName(identity.cluster_id);
  // A worker serves other workers.
  if (identity.kind == "node" && IsWord(identity.name, "-"))
    names += ",DNS:" + NodeName(identity.cluster_id, identity.name);
  for (const std::string& address : addresses) {
    unsigned char parsed[16];
    const bool is_ip = inet_pton(AF_INET, address.c_str(), parsed) == 1 ||
                       inet_pton(AF_INET6, address.c_str(), parsed) == 1;
    if (!is_ip && !IsWord(address, "-._"))
      return Invalid("'" + EscapeControl(address) + "' is neither an IP address nor a host name");
    names += (is_ip ? ",IP:" : ",DNS:") + address;
  }
  return names;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A certificate for `key`, without extensions and not signed yet.
absl::StatusOr<Certificate> StartCertificate(EVP_PKEY* key, const std::string& common_name,
                                             Millis valid_for) {
  Certificate certificate(X509_new());
  unsigned char serial[16];
  RT_CHECK(RAND_bytes(serial, sizeof serial) == 1);
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x40);  // Positive, of full length.
  std::unique_ptr<BIGNUM, FreeWith<BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  X509_NAME* name = X509_get_subject_name(certificate.get());
  const std::string cut = common_name.substr(0, 64);  // X.520's bound.
  bool good = X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
              BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) &&
              X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kClockSkewSeconds) &&
              X509_gmtime_adj(X509_getm_notAfter(certificate.get()),
                              static_cast<long>(valid_for / 1000)) &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                         reinterpret_cast<const unsigned char*>(cut.c_str()), -1,
                                         -1, 0) == 1 &&
              X509_set_pubkey(certificate.get(), key) == 1;
  if (!good) return SslError("make a certificate");
  return certificate;
}

absl::StatusOr<std::string> Issue(const KeyPair& ca, EVP_PKEY* key, const Identity& identity,
                                  Millis valid_for, const std::vector<std::string>& addresses) {
  RT_RETURN_IF_ERROR(CheckIdentity(identity));
  RT_ASSIGN_OR_RETURN(Certificate issuer, ParseCertificate(ca.certificate_pem));
  RT_ASSIGN_OR_RETURN(Key ca_key, ParseKey(ca.key_pem));
  RT_ASSIGN_OR_RETURN(std::string names, SubjectNames(identity, addresses));
  std::string common_name = identity.kind + (identity.name.empty() ? "" : "/" + identity.name);
  RT_ASSIGN_OR_RETURN(Certificate leaf, StartCertificate(key, common_name, valid_for));
  const bool serves = identity.kind == "head" || identity.kind == "node";
  const char* usage = serves ? "serverAuth,clientAuth" : "clientAuth";
  bool good =
      X509_set_issuer_name(leaf.get(), X509_get_subject_name(issuer.get())) == 1 &&
      AddExtension(leaf.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(leaf.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") &&
      AddExtension(leaf.get(), issuer.get(), NID_ext_key_usage, usage) &&
      AddExtension(leaf.get(), issuer.get(), NID_subject_key_identifier, "hash") &&
      AddExtension(leaf.get(), issuer.get(), NID_authority_key_identifier, "keyid:always") &&
      AddExtension(leaf.get(), issuer.get(), NID_subject_alt_name, names) &&
      X509_sign(leaf.get(), ca_key.get(), EVP_sha256()) > 0;
  if (!good) return SslError("issue a certificate");
  return FormatCertificate(leaf);
}

}  // namespace

std::string HeadName(const std::string& cluster_id) { return "head." + cluster_id + ".rt"; }

std::string NodeName(const std::string& cluster_id, const std::string& node) {
  return "node-" + node + "." + cluster_id + ".rt";
}

absl::StatusOr<std::string> CreateKey() {
  Key key(EVP_EC_gen("P-256"));
  Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                                 nullptr) != 1)
    return SslError("make a key");
  return TextOf(bio);
}

absl::StatusOr<KeyPair> CreateCa(const std::string& cluster_id) {
  RT_RETURN_IF_ERROR(CheckIdentity({.cluster_id = cluster_id, .kind = "head", .role = "head"}));
  KeyPair ca;
  RT_ASSIGN_OR_RETURN(ca.key_pem, CreateKey());
  RT_ASSIGN_OR_RETURN(Key key, ParseKey(ca.key_pem));
  RT_ASSIGN_OR_RETURN(Certificate certificate,
                      StartCertificate(key.get(), "rt cluster " + cluster_id, kCaValidFor));
  X509* self = certificate.get();
  bool good = X509_set_issuer_name(self, X509_get_subject_name(self)) == 1 &&
              AddExtension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              AddExtension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              AddExtension(self, self, NID_subject_key_identifier, "hash") &&
              X509_sign(self, key.get(), EVP_sha256()) > 0;
  if (!good) return SslError("make a certificate authority");
  RT_ASSIGN_OR_RETURN(ca.certificate_pem, FormatCertificate(certificate));
  return ca;
}

absl::StatusOr<KeyPair> IssueKeyPair(const KeyPair& ca, const Identity& identity, Millis valid_for,
                                     const std::vector<std::string>& addresses) {
  KeyPair pair;
  RT_ASSIGN_OR_RETURN(pair.key_pem, CreateKey());
  RT_ASSIGN_OR_RETURN(Key key, ParseKey(pair.key_pem));
  RT_ASSIGN_OR_RETURN(pair.certificate_pem, Issue(ca, key.get(), identity, valid_for, addresses));
  return pair;
}

absl::StatusOr<std::string> CreateCsr(const std::string& key_pem) {
  RT_ASSIGN_OR_RETURN(Key key, ParseKey(key_pem));
  Request request(X509_REQ_new());
  Bio bio(BIO_new(BIO_s_mem()));
  bool good = X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
              X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
              X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0 &&
              PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1;
  if (!good) return SslError("make a certificate request");
  return TextOf(bio);
}

absl::StatusOr<std::string> SignCsr(const KeyPair& ca, const std::string& csr_pem,
                                    const Identity& identity, Millis valid_for) {
  Request request(PEM_read_bio_X509_REQ(BioOf(csr_pem).get(), nullptr, nullptr, nullptr));
  EVP_PKEY* key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  // The signature proves that whoever asks holds the key.
  if (key == nullptr || X509_REQ_verify(request.get(), key) != 1) {
    ERR_clear_error();
    return Invalid("malformed certificate request");
  }
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC || EVP_PKEY_get_bits(key) != 256)
    return Invalid("the certificate request's key is not ECDSA P-256");
  return Issue(ca, key, identity, valid_for, {});
}

absl::Status CheckOwnCertificate(const Credentials& credentials) {
  RT_ASSIGN_OR_RETURN(Certificate own, ParseCertificate(credentials.own.certificate_pem));
  RT_ASSIGN_OR_RETURN(Certificate ca, ParseCertificate(credentials.ca_pem));
  if (X509_verify(own.get(), X509_get0_pubkey(ca.get())) != 1) {
    ERR_clear_error();
    return absl::UnauthenticatedError("the certificate was issued by the CA of another cluster");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(own.get())) < 0)
    return absl::UnauthenticatedError("the certificate has expired");
  return absl::OkStatus();
}

absl::StatusOr<double> CertificateSecondsLeft(const std::string& certificate_pem) {
  RT_ASSIGN_OR_RETURN(Certificate certificate, ParseCertificate(certificate_pem));
  int days = 0, seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate.get())) != 1)
    return Invalid("the certificate has no end");
  return days * 86'400.0 + seconds;
}

absl::StatusOr<Identity> IdentityOf(const std::string& certificate_pem) {
  RT_ASSIGN_OR_RETURN(Certificate certificate, ParseCertificate(certificate_pem));
  Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  Identity identity;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                          static_cast<size_t>(ASN1_STRING_length(uri)));
    if (!text.starts_with(kScheme)) continue;
    std::vector<std::string> parts = Split(text.substr(kScheme.size()), '/');
    if (parts.size() < 2 || (!identity.cluster_id.empty() && identity.cluster_id != parts[0]))
      return absl::UnauthenticatedError("the certificate names no identity of one cluster");
    identity.cluster_id = parts[0];
    if (parts[1] == "role" && parts.size() == 3) {
      identity.role = parts[2];
    } else {
      identity.kind = parts[1];
      identity.name = parts.size() == 3 ? parts[2] : "";
    }
  }
  if (!CheckIdentity(identity).ok())
    return absl::UnauthenticatedError("the certificate names no identity");
  return identity;
}

}  // namespace rt
