#include "two_processes.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "buffer.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/status_text.hpp"

namespace host = warpverbs::host;
namespace mlx5 = warpverbs::mlx5;

namespace {

constexpr const char* kDone = "done";

/// What a side tells the other, as one line.
struct Introduction {
  uint64_t address = 0;  // of two buffers and a word
  uint32_t rkey = 0;
  uint64_t bytes = 0;
  uint64_t rounds = 0;
  uint32_t value = 0;

  std::string ToText() const {
    std::ostringstream text;
    text << address << ' ' << rkey << ' ' << bytes << ' ' << rounds << ' ' << value;
    return text.str();
  }

  static Introduction FromText(const std::string& line) {
    std::istringstream text(line);
    Introduction peer;
    text >> peer.address >> peer.rkey >> peer.bytes >> peer.rounds >> peer.value;
    if (!text || peer.value > 255)
      throw std::runtime_error("The peer is no simple_gpu_interchange of this version: it says '" + line +
                               "'.");
    return peer;
  }
};

void CheckAgreement(const Introduction& own, const Introduction& peer) {
  if (own.bytes == peer.bytes && own.rounds == peer.rounds) return;
  std::ostringstream text;
  text << "The two sides do not agree: " << own.rounds << " rounds of " << own.bytes << " bytes here, "
       << peer.rounds << " of " << peer.bytes << " there. Give both the same --iterations and --bytes.";
  throw std::runtime_error(text.str());
}

/// Lines of text to the peer and from it, each step within the patience.
class Line {
 public:
  explicit Line(const PeerOptions& options)
      : patience_(options.patience),
        exchange_(options.listens ? Listen(options.meeting)
                                  : host::TcpExchange::Connect(options.meeting, Until())) {}

  host::TcpExchange& exchange() { return exchange_; }
  host::Deadline Until() const { return host::DeadlineIn(patience_); }

  std::string Swap(const std::string& mine, const char* what) {
    const std::span bytes(reinterpret_cast<const uint8_t*>(mine.data()), mine.size());
    const std::vector<uint8_t> theirs = exchange_.Swap(bytes, what, Until());
    return {theirs.begin(), theirs.end()};
  }

 private:
  host::TcpExchange Listen(const host::TcpAddress& meeting) const {
    const host::TcpListener listener(meeting);
    std::printf("   listening on port %u\n", listener.port());
    return listener.Accept(Until());
  }

  std::chrono::seconds patience_;
  host::TcpExchange exchange_;
};

void CheckReport(const Report& report) {
  using warpverbs::device::Code;
  if (report.status.code == Code::kPending) throw std::runtime_error("The kernel did not run to its end.");
  if (!report.status.ok())
    throw std::runtime_error("The interchange failed: " + host::Describe(report.status) + ".");
  if (report.strays)
    throw std::runtime_error(std::to_string(report.strays) + " completions came twice or out of order.");
  if (report.wrong_bytes)
    throw std::runtime_error(std::to_string(report.wrong_bytes) + " bytes of the peer's are wrong.");
}

/// The NIC, the endpoint and the memory of this side.
class Side {
 public:
  explicit Side(const PeerOptions& options)
      : options_(options),
        where_(options.fabric.FirstActivePort()),
        device_(where_.nic),
        endpoint_(device_, Config(options, where_.port)),
        source_(device_, options.gpu, options.placement, options.bytes, {.local_write = false}),
        arrived_(device_, options.gpu, options.placement, SignalOffset() + sizeof(uint64_t),
                 {.remote_write = true}) {}

  Introduction Introduce() const {
    const host::MemoryView region = arrived_.View();
    return {region.addr, region.rkey, options_.bytes, options_.rounds, options_.value};
  }

  void Connect(Line& line) {
    host::ConnectAll(std::array{&endpoint_}, line.exchange(), line.Until());
    std::printf("   by %s\n%s", options_.fabric.Describe(where_, options_.fabric.gid_index()).c_str(),
                endpoint_.Describe().c_str());
  }

  Report Run(const Introduction& peer, const RunConversation& run) const {
    const host::MemoryView from = source_.View();
    const uint64_t arrived = arrived_.View().addr;
    const mlx5::Be32 rkey = mlx5::ToBe32(peer.rkey);
    const Conversation job{
        .queue = endpoint_.View(),
        .completions = endpoint_.CompletionView(),
        .source = {.addr = from.addr, .bytes = options_.bytes, .lkey = mlx5::ToBe32(from.lkey)},
        .target = {.addr = peer.address, .rkey = rkey},
        .signal = {.addr = peer.address + SignalOffset(), .rkey = rkey},
        .arrived = reinterpret_cast<const uint8_t*>(arrived),
        .signalled = reinterpret_cast<const uint64_t*>(arrived + SignalOffset()),
        .rounds = options_.rounds,
        .patience_ns = static_cast<uint64_t>(std::chrono::nanoseconds(options_.patience).count()),
        .value = options_.value,
        .peer_value = static_cast<uint8_t>(peer.value)};
    return run(job, source_.on_gpu() ? endpoint_.ReleaseScope() : warpverbs::arch::Scope::kSystem);
  }

 private:
  static host::EndpointConfig Config(const PeerOptions& options, uint8_t port) {
    host::EndpointConfig config = options.fabric.Config(port);
    config.cq_mode = host::CqMode::kRing;
    config.gpu = options.gpu;
    config.placement = options.placement;
    return config;
  }

  /// The word lies behind the buffers, at a multiple of 8.
  uint64_t SignalOffset() const { return (2 * uint64_t{options_.bytes} + 7) / 8 * 8; }

  const PeerOptions& options_;
  warpverbs::programs::NicAndPort where_;
  host::Device device_;
  host::Endpoint endpoint_;
  Buffer source_, arrived_;
};

}  // namespace

uint64_t InterchangeWithPeer(const PeerOptions& options, const RunConversation& run) {
  std::puts("1. Making an endpoint and buffers");
  Side side(options);

  std::puts("2. Meeting the peer");
  Line line(options);

  std::puts("3. Connecting the endpoints");
  side.Connect(line);
  try {
    const Introduction own = side.Introduce();
    const Introduction peer = Introduction::FromText(line.Swap(own.ToText(), "introductions"));
    CheckAgreement(own, peer);

    std::puts("4. Launching the kernel: fill, post, ring, poll, verify, round by round");
    const Report report = side.Run(peer, run);
    CheckReport(report);

    std::puts("5. Waiting for the peer's verdict");  // it may still miss this side's acknowledgement
    const std::string verdict = line.Swap(kDone, "verdicts");
    if (verdict != kDone) throw std::runtime_error("The peer failed: " + verdict);
    return report.completions;
  } catch (const std::exception& error) {
    try {
      line.Swap(error.what(), "the reason of a failure");  // the peer need not wait
    } catch (const std::exception&) {                      // it has left
    }
    throw;
  }
}
