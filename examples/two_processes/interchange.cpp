#include "interchange.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "../common/registered_buffer.hpp"
#include "common/accept_client.hpp"
#include "kernel.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace host = warpverbs::host;

namespace {

constexpr const char* kDone = "done";

/// The message by which each side tells the other where and what to write.
struct Introduction {
  warpverbs::device::RemoteMemory memory{};  ///< two buffers and a word
  uint64_t bytes = 0;
  uint64_t rounds = 0;
  uint64_t value = 0;
};

void CheckAgreement(const Introduction& own, const Introduction& peer) {
  const auto describe = [](const Introduction& side) {
    return std::to_string(side.rounds) + " rounds of " + std::to_string(side.bytes) + " bytes";
  };
  if (own.bytes == peer.bytes && own.rounds == peer.rounds) return;
  throw std::runtime_error("The two sides do not agree: " + describe(own) + " here, " + describe(peer) +
                           " there. Give both the same --iterations and --bytes.");
}

void CheckReport(const Report& report) {
  if (!report.status.ok())
    throw std::runtime_error("The interchange failed: " + host::Describe(report.status) + ".");
  if (report.strays)
    throw std::runtime_error(std::to_string(report.strays) + " completions came twice or out of order.");
  if (report.wrong_bytes)
    throw std::runtime_error(std::to_string(report.wrong_bytes) + " bytes from the peer are wrong.");
}

/// Connects to the peer, and swaps introductions with it.
host::TcpExchange MeetPeer(const Options& options, const Introduction& own, Introduction& peer) {
  const auto introduce = [&](host::TcpExchange& exchange, host::Deadline deadline) {
    peer = exchange.Swap(own, "introductions", deadline);
  };
  const host::Deadline deadline = host::DeadlineIn(options.timeout);
  if (!options.listens) {
    host::TcpExchange exchange = host::TcpExchange::Connect(options.address, deadline);
    introduce(exchange, host::DeadlineIn(options.timeout));
    return exchange;
  }
  const host::TcpListener listener(options.address);
  std::printf("   listening on port %u\n", listener.port());
  return warpverbs::programs::AcceptClient(
      listener, deadline, options.timeout, introduce,
      [](const std::string& line) { std::printf("   %s\n", line.c_str()); });
}

Report RunOnCpu(const Job& job) {
  Report report;
  warpverbs::arch::cpu::RunBlock(2, [&](uint32_t) { RunRounds<warpverbs::arch::Cpu>(job, report); });
  return report;
}

/// NIC, endpoint and memory of this side.
class Side {
 public:
  explicit Side(const Options& options)
      : options_(options),
        port_(options.fabric.FirstActivePort()),
        nic_(port_.nic),
        endpoint_(nic_, Config(options, port_.port)),
        source_(RegisteredBuffer::Allocate(nic_, options.gpu, options.placement, options.bytes, {})),
        arrived_(RegisteredBuffer::Allocate(nic_, options.gpu, options.placement,
                                            SignalOffset() + sizeof(uint64_t), {.remote_write = true})) {
    std::printf("   taking %s\n", options.fabric.Describe(port_, options.fabric.gid_index()).c_str());
  }

  Introduction Introduce() const {
    return {arrived_.region.View().Remote(), options_.bytes, options_.rounds, options_.value};
  }

  void Connect(host::Exchange& exchange) {
    host::ConnectAll(std::array{&endpoint_}, exchange, host::DeadlineIn(options_.timeout));
    std::printf("%s", endpoint_.Describe().c_str());
  }

  Report Run(const Introduction& peer) const {
    const uint64_t arrived = arrived_.region.View().addr;
    const Job job{.queue = endpoint_.View(),
                  .completions = endpoint_.CompletionView(),
                  .source = source_.region.View().First(options_.bytes).Local(),
                  .target = peer.memory,
                  .signal = {peer.memory.addr + SignalOffset(), peer.memory.rkey},
                  .arrived = reinterpret_cast<const uint8_t*>(arrived),
                  .signalled = reinterpret_cast<const uint64_t*>(arrived + SignalOffset()),
                  .rounds = options_.rounds,
                  .timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(options_.timeout).count()),
                  .value = options_.value,
                  .peer_value = static_cast<uint8_t>(peer.value)};
    if (!options_.gpu) return RunOnCpu(job);
    const bool all_on_gpu = source_.region.method() != host::RegistrationMethod::kHost;
    return RunOnCuda(options_.gpu->ordinal(),
                     all_on_gpu ? endpoint_.ReleaseScope() : warpverbs::arch::Scope::kSystem, job);
  }

 private:
  static host::EndpointConfig Config(const Options& options, uint8_t port) {
    host::EndpointConfig config = options.fabric.Config(port);
    config.gpu = options.gpu ? &*options.gpu : nullptr;
    config.placement = options.placement;
    return config;
  }

  /// Returns the offset of the word that counts rounds: behind both buffers, at a multiple of 8.
  uint64_t SignalOffset() const { return (2 * uint64_t{options_.bytes} + 7) / 8 * 8; }

  const Options& options_;
  warpverbs::programs::NicAndPort port_;
  host::Device nic_;
  host::Endpoint endpoint_;
  RegisteredBuffer source_, arrived_;
};

}  // namespace

uint64_t Interchange(const Options& options) {
  std::puts("1. Creating an endpoint and buffers");
  Side side(options);

  std::puts("2. Connecting to the peer by TCP");
  const Introduction own = side.Introduce();
  Introduction peer;
  host::TcpExchange exchange = MeetPeer(options, own, peer);
  try {
    CheckAgreement(own, peer);

    std::puts("3. Connecting the endpoints");
    side.Connect(exchange);

    std::puts("4. Launching the kernel: fill, post, ring, poll, verify, round by round");
    const Report report = side.Run(peer);
    CheckReport(report);

    // A side that left now could take with it an acknowledgement that the peer still waits for.
    std::puts("5. Waiting for the peer's result");
    const std::string result = exchange.Swap(kDone, "results", host::DeadlineIn(options.timeout));
    if (result != kDone) throw std::runtime_error("The peer failed: " + host::PrintableText(result));
    return report.completions;
  } catch (const std::exception& error) {
    try {
      exchange.Swap(error.what(), "the reason of a failure", host::DeadlineIn(options.timeout));
    } catch (const std::exception&) {  // the peer has left
    }
    throw;
  }
}
