// A trial of one second: it sleeps, then reports once.
#include "tests/bench/trial_socket.h"

int main() {
  ::usleep(1'000'000);
  rt::bench::TrialClient client;
  client.Send("{\"op\":\"report\",\"seq\":1,\"metrics\":{\"loss\":0.5}}\n");
  if (client.Receive().find("\"ack\"") == std::string::npos) rt::bench::Fail("no ack");
}
