#pragma once

#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "rdma_demo/side.hpp"

namespace rdma_demo {

/// The end of one side.
struct SideResult {
  bool succeeded = false;
  std::string error{};  ///< text of the exception, if there was one
  std::string output{};
};

struct BothResults {
  SideResult server, client;

  bool succeeded() const { return server.succeeded && client.succeeded; }
  std::string output() const {
    return "server: " + server.error + "\n" + server.output + "client: " + client.error + "\n" +
           client.output;
  }
};

/// Runs a side on its thread, with something around it.
using Around = std::function<void(Role role, const std::function<void()>& run)>;

inline void Directly(Role, const std::function<void()>& run) { run(); }

inline SideResult ResultOf(const std::function<bool(std::ostream&)>& side) {
  SideResult ended;
  std::ostringstream out;
  try {
    ended.succeeded = side(out);
  } catch (const std::exception& error) {
    ended.error = error.what();
  }
  ended.output = out.str();
  return ended;
}

/// Returns options with short messages and long timeouts.
inline Options MakeOptions(const std::string& memory, uint64_t bytes = 4096) {
  Options options;
  options.memory = memory;
  options.bytes = bytes;
  options.wait = options.timeout = std::chrono::seconds(60);
  return options;
}

/// Runs both sides in this process, each in a thread of its own.
inline BothResults RunBoth(const Options& server, Options client, const Around& around = Directly) {
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  client.server = "127.0.0.1";
  client.port = listener.port();
  BothResults both;
  {
    const std::jthread serving([&] {
      both.server = ResultOf([&](std::ostream& out) {
        bool succeeded = false;
        around(Role::kServer, [&] { succeeded = RunServer(std::move(listener), server, out); });
        return succeeded;
      });
    });
    const std::jthread visiting([&] {
      both.client = ResultOf([&](std::ostream& out) {
        bool succeeded = false;
        around(Role::kClient, [&] { succeeded = RunClient(client, out); });
        return succeeded;
      });
    });
  }
  return both;
}

}  // namespace rdma_demo
