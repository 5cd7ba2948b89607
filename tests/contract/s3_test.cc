// Against a service that s3.py starts: RT_TEST_S3 is its endpoint, RT_TEST_S3_FAULTY one that
// leads to it through faults. Credentials come from the environment, as for the head.
#include <cstdlib>

#include "common/base/status.h"
#include "common/cas/retry_objects.h"
#include "common/cas/s3_objects.h"
#include "common/run/random.h"
#include "tests/contract/object_store_suite.h"

using namespace rt;

namespace {

constexpr S3Sizes kSmall = {.multipart_above = 6 << 20, .part_bytes = 5 << 20};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

// A client with a prefix of its own in the bucket, unless told one.
struct Bucket {
  HttpClient http;
  CredentialChain chain;
  S3Client client;
  S3Objects objects;

  explicit Bucket(const char* endpoint, const std::string& prefix = "t/" + RandomHex(8),
                  Environment environment = ProcessEnvironment(),
                  std::function<Millis()> clock = nullptr)
      : chain(http, environment),
        client(http, chain,
               *ParseS3Location("s3://rt-test/" + prefix, Variable(endpoint), "", environment),
               std::move(clock)),
        objects(client, kSmall) {}
};

std::string Varied(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(Mix64(i / 8) >> (i % 8 * 8));
  return bytes;
}

}  // namespace

TEST_CASE("object store contract: S3, signatures checked") {
  Bucket bucket("RT_TEST_S3", "contract"), other("RT_TEST_S3", "contract");
  contract::CheckObjectStore(bucket.objects, other.objects);
  CHECK(ProbeObjects(bucket.objects).ok());
}

TEST_CASE("object store contract: S3 without a prefix is the whole bucket") {
  Bucket bucket("RT_TEST_S3", "");
  contract::ObjectsReadBack(bucket.objects);
  contract::PutReplacesAndPutIfAbsentDoesNot(bucket.objects);
}

TEST_CASE("object store contract: S3 behind resets, 503, truncation and delay, with retries") {
  Bucket bucket("RT_TEST_S3_FAULTY"), other("RT_TEST_S3_FAULTY", bucket.client.location().prefix);
  int waits = 0;
  std::mutex mutex;
  auto sleep = [&](Millis) {
    std::lock_guard lock(mutex);
    ++waits;
  };
  const RetryPolicy patient{.attempts_max = 30};
  RetryObjects store(bucket.objects, patient, sleep), store_too(other.objects, patient, sleep);
  contract::ObjectsReadBack(store);
  contract::PutReplacesAndPutIfAbsentDoesNot(store);
  contract::RangesAreExact(store);
  contract::ListsAreSortedAndPaged(store);
  contract::OneOfManyWins({&store, &store_too});
  contract::NoReaderSeesAPart(store);
  CHECK(waits > 20);
}

TEST_CASE("S3: large objects travel in parts, and a condition holds for them") {
  Bucket bucket("RT_TEST_S3");
  const std::string large = Varied((11 << 20) + 17);
  REQUIRE(bucket.objects.PutIfAbsent("large", large).ok());
  CHECK(*bucket.objects.Get("large") == large);
  CHECK(*bucket.objects.GetRange("large", (5 << 20) - 3, 10) == large.substr((5 << 20) - 3, 10));
  CHECK(absl::IsAlreadyExists(bucket.objects.PutIfAbsent("large", large)));
  REQUIRE(bucket.objects.Put("large", large.substr(1)).ok());
  CHECK(bucket.objects.Look("large").value()->bytes == static_cast<Bytes>(large.size()) - 1);
}

TEST_CASE("S3: a wrong secret is refused, and the error names it, not the secret") {
  Environment environment = ProcessEnvironment();
  environment["AWS_SECRET_ACCESS_KEY"] = "not-the-secret-of-this-key";
  Bucket bucket("RT_TEST_S3", "x", environment);
  absl::Status status = bucket.objects.Put("a", "b");
  CHECK(absl::IsPermissionDenied(status));
  CHECK(MessageOf(status).find("SignatureDoesNotMatch") != std::string::npos);
  CHECK(HintOf(status).find("secret is wrong") != std::string::npos);
  CHECK(status.ToString().find("not-the-secret") == std::string::npos);
  environment["AWS_ACCESS_KEY_ID"] = "AKIAUNKNOWN000000000";
  Bucket unknown("RT_TEST_S3", "x", environment);
  CHECK(absl::IsPermissionDenied(unknown.objects.Get("a").status()));
}

TEST_CASE("S3: a bucket that does not exist is no missing object") {
  HttpClient http;
  CredentialChain chain(http, ProcessEnvironment());
  S3Client client(http, chain,
                  *ParseS3Location("s3://rt-nowhere/x", Variable("RT_TEST_S3"), "",
                                   ProcessEnvironment()));
  S3Objects objects(client);
  absl::Status status = objects.Put("a", "b");
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(HintOf(status).find("create the bucket rt-nowhere") != std::string::npos);
}
