// One of two processes that connect endpoints of depth 64 in a queue pool. `connect_peer COUNT` listens and
// prints its port; `connect_peer COUNT PORT` connects. With a third argument the process exits without a word
// once the peer is there. Prints how much memory the endpoints took.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace host = warpverbs::host;

namespace {

host::TcpExchange Meet(int argc, char** argv, host::Deadline deadline) {
  if (argc > 2)
    return host::TcpExchange::Connect({"localhost", static_cast<uint16_t>(std::stoi(argv[2]))}, deadline);
  const host::TcpListener listener;
  std::printf("listening on port %u\n", listener.port());
  std::fflush(stdout);
  return listener.Accept(deadline);
}

int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

int main(int argc, char** argv) try {
  const host::Deadline deadline = host::DeadlineIn(std::chrono::seconds(90));
  const host::Device device;
  const int64_t before = ResidentBytes();
  host::QueuePool pool(device);
  std::vector<std::unique_ptr<host::Endpoint>> owned;
  std::vector<host::Endpoint*> endpoints;
  for (int i = 0; i < std::stoi(argv[1]); ++i) {
    owned.push_back(
        std::make_unique<host::Endpoint>(device, host::EndpointConfig{.depth = 64, .pool = &pool}));
    endpoints.push_back(owned.back().get());
  }
  host::TcpExchange exchange = Meet(argc, argv, deadline);
  if (argc > 3) return 3;
  host::ConnectAll(endpoints, exchange, deadline, {.round_trip = true});
  const double kib = static_cast<double>(ResidentBytes() - before) / 1024;
  std::printf("%zu connected, %.1f KiB each\n", endpoints.size(),
              kib / static_cast<double>(endpoints.size()));
  return 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
