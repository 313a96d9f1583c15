// One of two processes that move data between them. `transport_peer file FOLDER first|second` exchanges URLs
// by files in a folder; `transport_peer tcp` listens and prints its port, `transport_peer tcp PORT` connects.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace host = warpverbs::host;
namespace transport = warpverbs::transport;

namespace {

constexpr size_t kBytes = 3'000'001;

struct Side {
  Side() : bytes(2 * kBytes), memory(bytes.data(), bytes.size(), 0), wire(0) {}

  /// Returns one line for the peer: URL, access key and address of the memory.
  std::string Line() {
    const transport::Bound bound = wire.Bind();
    if (!bound.status.ok()) throw std::runtime_error(bound.status.Describe());
    return bound.url + " " + memory.RemoteKey().ToText() + " " +
           std::to_string(reinterpret_cast<uintptr_t>(bytes.data()));
  }

  std::vector<uint8_t> bytes;  // outgoing, then incoming
  transport::RdmaMemory memory;
  transport::RdmaTransport wire;
};

void Expect(const transport::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.Describe());
}

/// Writes this side's pattern, expects the peer's, and reads back what it wrote.
void Transfer(Side& side, const std::string& line, uint8_t mine, uint8_t theirs) {
  const size_t first = line.find(' '), second = line.rfind(' ');
  Expect(side.wire.Connect(line.substr(0, first)));
  const auto key = transport::AccessKey::FromText(line.substr(first + 1, second - first - 1));
  auto* const place = reinterpret_cast<uint8_t*>(std::stoull(line.substr(second + 1))) + kBytes;
  for (size_t i = 0; i < kBytes; ++i) side.bytes[i] = static_cast<uint8_t>(i * 7 + mine);
  const transport::RdmaRemoteBuffer remote{place, key, kBytes};
  auto written = side.wire.Write(side.memory.CreateView(size_t{0}, kBytes), remote, {.notify = true});
  const transport::WaitOptions a_minute{.timeout = std::chrono::minutes(1)};
  Expect(side.wire.WaitForWrite(a_minute).get());
  Expect(written.get());
  for (size_t i = 0; i < kBytes; ++i) {
    if (side.bytes[kBytes + i] != static_cast<uint8_t>(i * 7 + theirs))
      throw std::runtime_error("the peer's bytes are wrong");
  }
  std::fill_n(side.bytes.begin(), kBytes, uint8_t{0});
  Expect(side.wire.Read(side.memory.CreateMutableView(size_t{0}, kBytes), remote).get());
  if (side.bytes[1] != static_cast<uint8_t>(7 + mine))
    throw std::runtime_error("the bytes that were read back are wrong");
  // The peer may still be reading this memory, so both sides tell each other when they are done.
  auto done = side.wire.Write(side.memory.CreateView(size_t{0}, 0), remote, {.notify = true});
  Expect(side.wire.WaitForWrite(a_minute).get());
  Expect(done.get());
}

std::string ReadLine(const std::filesystem::path& file) {
  const host::Deadline deadline = host::DeadlineIn(std::chrono::minutes(1));
  while (!std::filesystem::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error(file.string() + " does not exist");
    std::this_thread::yield();
  }
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

void ByFiles(const std::filesystem::path& folder, bool first) {
  Side side;
  const char* const names[] = {"first", "second"};
  const std::string mine = names[first ? 0 : 1], theirs = names[first ? 1 : 0];
  std::ofstream(folder / (mine + ".new")) << side.Line() << "\n";
  std::filesystem::rename(folder / (mine + ".new"), folder / mine);
  Transfer(side, ReadLine(folder / theirs), first ? 1 : 2, first ? 2 : 1);
}

void ByTcp(const char* port) {
  const host::Deadline deadline = host::DeadlineIn(std::chrono::minutes(1));
  const auto connect = [&] {
    if (port != nullptr) {
      return host::TcpExchange::Connect({"localhost", static_cast<uint16_t>(std::stoi(port))}, deadline);
    }
    const host::TcpListener listener;
    std::printf("listening on port %u\n", listener.port());
    std::fflush(stdout);
    return listener.Accept(deadline);
  };
  Side side;
  host::TcpExchange exchange = connect();
  const std::string line = side.Line();
  const auto theirs =
      exchange.Swap({reinterpret_cast<const uint8_t*>(line.data()), line.size()}, "URLs", deadline);
  const bool first = port == nullptr;
  Transfer(side, std::string(theirs.begin(), theirs.end()), first ? 1 : 2, first ? 2 : 1);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string method = argc > 1 ? argv[1] : "";
  if (method == "file" && argc == 4) {
    ByFiles(argv[2], std::string(argv[3]) == "first");
  } else if (method == "tcp" && argc <= 3) {
    ByTcp(argc == 3 ? argv[2] : nullptr);
  } else {
    std::fprintf(stderr, "Usage: transport_peer file FOLDER first|second, or transport_peer tcp [PORT]\n");
    return 2;
  }
  std::puts("moved");
  return 0;
} catch (const std::exception& error) {
  std::puts(error.what());
  return 1;
}
