#include "common/accept_client.hpp"

#include <algorithm>

#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {

host::TcpExchange AcceptClient(const host::TcpListener& listener, host::Deadline deadline,
                               std::chrono::nanoseconds patience,
                               const std::function<void(host::TcpExchange&, host::Deadline)>& introduce,
                               const std::function<void(const std::string&)>& note) {
  while (true) {
    host::TcpExchange client = listener.Accept(deadline);
    try {
      // A silent client must not delay the server longer than a missing one would.
      introduce(client, std::min(deadline, host::DeadlineIn(patience)));
      return client;
    } catch (const host::Error& error) {
      note(std::string("not a client: ") + error.what());
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw host::Error(
          "accept", "a client on port " + std::to_string(listener.port()),
          "the only clients in time did not introduce themselves",
          "Start the client with this machine's name and this port, or choose a longer time to wait");
    }
  }
}

}  // namespace warpverbs::programs
