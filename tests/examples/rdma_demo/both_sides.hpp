#pragma once

#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "rdma_demo/sides.hpp"

namespace rdma_demo {

/// How one side ended.
struct Ended {
  bool well = false;
  std::string sentence{};  ///< that it threw
  std::string output{};
};

struct Both {
  Ended server, client;

  bool well() const { return server.well && client.well; }
  std::string output() const {
    return "server: " + server.sentence + "\n" + server.output + "client: " + client.sentence + "\n" +
           client.output;
  }
};

/// Runs something of a side in that side's thread; by default just that.
using Around = std::function<void(Role role, const std::function<void()>& run)>;

inline void Directly(Role, const std::function<void()>& run) { run(); }

inline Ended EndOf(const std::function<bool(std::ostream&)>& side) {
  Ended ended;
  std::ostringstream out;
  try {
    ended.well = side(out);
  } catch (const std::exception& error) {
    ended.sentence = error.what();
  }
  ended.output = out.str();
  return ended;
}

/// Options of a test: short messages, and more time than a busy machine needs.
inline Options Of(const std::string& memory, uint64_t bytes = 4096) {
  Options options;
  options.memory = memory;
  options.bytes = bytes;
  options.wait = options.patience = std::chrono::seconds(60);
  return options;
}

/// Runs both sides in this process, each in a thread of its own.
inline Both RunBoth(const Options& server, Options client, const Around& around = Directly) {
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  client.server = "127.0.0.1";
  client.port = listener.port();
  Both both;
  {
    const std::jthread serving([&] {
      both.server = EndOf([&](std::ostream& out) {
        bool well = false;
        around(Role::kServer, [&] { well = Serve(std::move(listener), server, out); });
        return well;
      });
    });
    const std::jthread visiting([&] {
      both.client = EndOf([&](std::ostream& out) {
        bool well = false;
        around(Role::kClient, [&] { well = Visit(client, out); });
        return well;
      });
    });
  }
  return both;
}

}  // namespace rdma_demo
