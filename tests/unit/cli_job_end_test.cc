// What a foreground submit says of the end of its job.
#include <catch2/catch.hpp>

#include "cli/render/job_end.h"

using namespace rt;

namespace {

std::string TextOf(const char* job, const std::vector<uint64_t>& open) {
  return JobEndText(*Json::Parse(job), open);
}

}  // namespace

TEST_CASE("the end of a job: a signal, and the experiments that continue without their driver") {
  const char* killed = R"({"id":2,"state":"FAILED","signal":9,"exit_code":null,"reason":"x"})";
  CHECK(TextOf(killed, {}) == "job 2 was killed by signal 9");
  CHECK(TextOf(killed, {7}) ==
        "job 2 was killed by signal 9; experiment 7 continues: rt watch 7, "
        "rt exp stop 7, rt exp download 7");
  CHECK(TextOf(killed, {7, 8}) ==
        "job 2 was killed by signal 9; experiments 7, 8 continue: "
        "rt watch 7, rt exp stop 7,8, rt exp download 7");
}

TEST_CASE("the end of a job: an exit code says enough unless an experiment is open") {
  const char* crashed = R"({"id":3,"state":"FAILED","signal":null,"exit_code":1,"reason":"x"})";
  CHECK(TextOf(crashed, {}).empty());
  CHECK(TextOf(crashed, {7}).starts_with("job 3 exited with code 1; experiment 7 continues: "));
  const char* done = R"({"id":3,"state":"SUCCEEDED","signal":null,"exit_code":0,"reason":""})";
  CHECK(TextOf(done, {7}).empty());
  const char* stopped =
      R"({"id":3,"state":"STOPPED","signal":15,"exit_code":null,"reason":"stopped by a person"})";
  CHECK(TextOf(stopped, {}) == "job 3 was stopped: stopped by a person");
}
