// Who speaks: certificates of a per-cluster CA. An identity stands in a URI SAN,
//   spiffe://<cluster id>/head | node/<id> | user/<name> | join/<token id>
// with the role in a second one, spiffe://<cluster id>/role/<admin|user|viewer|worker|join|head>.
// Keys are ECDSA P-256; files are written 0600 in directories 0700.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;
};
// What one side of a connection holds; a directory with ca.pem, cert.pem, key.pem.
struct Credentials {
  std::string ca_pem;
  KeyPair own;
};
struct Identity {
  std::string cluster_id;
  std::string kind;  // head, node, user, join
  std::string name;  // The node's id, the user's name, the token's id.
  std::string role;  // admin, user, viewer, worker, join, head
};

// The DNS names in the certificates of who serves, which clients check instead of addresses. A
// node's is its id: letters, digits and dashes.
std::string HeadName(const std::string& cluster_id);
std::string NodeName(const std::string& cluster_id, const std::string& node);

absl::StatusOr<KeyPair> CreateCa(const std::string& cluster_id);
// A key and a certificate for `identity`; `addresses` (IPs, names) become SANs for servers.
absl::StatusOr<KeyPair> IssueKeyPair(const KeyPair& ca, const Identity& identity, Millis valid_for,
                                     const std::vector<std::string>& addresses);
absl::StatusOr<std::string> CreateKey();                                  // PEM
absl::StatusOr<std::string> CreateCsr(const std::string& key_pem);        // PEM
// Signs the CSR's key for `identity`; whatever else the CSR asks for is ignored.
absl::StatusOr<std::string> SignCsr(const KeyPair& ca, const std::string& csr_pem,
                                    const Identity& identity, Millis valid_for);
absl::StatusOr<Identity> IdentityOf(const std::string& certificate_pem);
// Unauthenticated when the head would refuse our own certificate: its time is over (by this
// machine's clock), or another CA than the one beside it issued it.
absl::Status CheckOwnCertificate(const Credentials& credentials);
// Seconds from now until the certificate expires; negative when it has.
absl::StatusOr<double> CertificateSecondsLeft(const std::string& certificate_pem);

absl::Status WriteCredentials(const std::string& directory, const Credentials& credentials);
absl::StatusOr<Credentials> ReadCredentials(const std::string& directory);

// A join token's text: everything that a node needs to reach Join, base64. See docs/security.md.
struct JoinToken {
  std::string id;
  std::string cluster_id;
  Credentials credentials;
  std::string role = {};  // Of whoever joins with it; empty: an older head made it.
  std::string name = {};  // To which it is bound; empty: a node chooses.
};
std::string EncodeJoinToken(const JoinToken& token);
absl::StatusOr<JoinToken> DecodeJoinToken(const std::string& text);

}  // namespace rt
