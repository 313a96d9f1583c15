// Times puts and signals of this library; see puts.hpp.
//
// Usage: warpverbs_puts RANK PORT_FILE gpu|host|host-posts
//
// Data are in GPU memory. Queues are there, too, or in host memory, where a kernel rings, or a host thread
// posts for it.
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "nic_label.hpp"
#include "puts.hpp"
#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace {

namespace arch = warpverbs::arch;
namespace device = warpverbs::device;
namespace host = warpverbs::host;

constexpr uint64_t kKernelLimitNs = 60'000'000'000;
constexpr size_t kSignalOffset = stacks::kStream * 8;  // the signal follows the target

template <class A>
struct Warpverbs {
  device::QueueView queue;
  device::LocalMemory source;
  device::RemoteMemory target;
  const uint64_t* signal;

  class Poster {
   public:
    __device__ explicit Poster(const Warpverbs& library)
        : library_(library), queue_(library.queue), limit_{.deadline_ns = A::NowNs() + kKernelLimitNs} {}
    __device__ void Put(uint32_t i) { Keep(queue_.Post(device::Write(Target(i), Source(i)), limit_)); }
    __device__ void Quiet() {
      if (posted_ && last_.status.ok()) last_.status = queue_.Wait(last_.ticket, limit_);
    }
    __device__ void Signal(uint64_t value) {
      Keep(queue_.Post(device::SignalSet(PeerSignal(), value), limit_));
    }
    __device__ void PutSignal(uint32_t i, uint64_t value) {
      Keep(queue_.Post(device::PutSignal(Target(i), Source(i), device::SignalSet(PeerSignal(), value)),
                       limit_));
    }
    __device__ bool WaitSignal(uint64_t value) {
      return device::WaitSignal<A>(library_.signal, device::Compare::kGreaterOrEqual, value, limit_).ok();
    }
    __device__ bool ok() const { return last_.status.ok(); }

   private:
    __device__ device::LocalMemory Source(uint32_t i) const {
      return {library_.source.addr + 8ull * i, 8, library_.source.lkey};
    }
    __device__ device::RemoteMemory Target(uint32_t i) const {
      return {library_.target.addr + 8ull * i, library_.target.rkey};
    }
    __device__ device::RemoteMemory PeerSignal() const { return Target(kSignalOffset / 8); }
    __device__ void Keep(const device::Posted& posted) {
      if (!ok()) return;  // the first failure counts
      last_ = posted;
      posted_ = true;
    }

    const Warpverbs& library_;
    device::SendQueue<A, device::Exclusive> queue_;
    const device::WaitLimit limit_;
    device::Posted last_{};
    bool posted_ = false;
  };
};

host::TcpExchange Meet(int rank, const std::string& port_file) {
  const auto deadline = host::DeadlineIn(std::chrono::seconds(30));
  std::optional<host::TcpListener> listener;
  if (rank == 0) listener.emplace(host::TcpAddress{"127.0.0.1"});
  const uint16_t port = stacks::Share<uint16_t>(rank, port_file, listener ? listener->port() : 0);
  return listener ? listener->Accept(deadline) : host::TcpExchange::Connect({"127.0.0.1", port}, deadline);
}

host::EndpointConfig Config(const host::Gpu& gpu, std::string_view mode) {
  host::EndpointConfig config{.depth = 1024, .gpu = &gpu, .placement = host::Placement::kHost};
  if (mode == "gpu") {
    config.placement = host::Placement::kGpu;
  } else if (mode == "host-posts") {
    config.doorbell = host::DoorbellMode::kHostPosts;
  } else if (mode != "host") {
    throw std::runtime_error("The mode is none of gpu, host and host-posts.");
  }
  return config;
}

/// This rank's endpoint and memory.
class Connected {
 public:
  Connected(int rank, const host::Gpu& gpu, const std::string& port_file, std::string_view mode)
      : rank_(rank),
        exchange_(Meet(rank, port_file)),
        nic_(host::FirstActiveDevice()),
        endpoint_(nic_, Config(gpu, mode)),
        source_(host::CudaMemoryKind(gpu).Allocate(kSignalOffset)),
        target_(host::CudaMemoryKind(gpu).Allocate(kSignalOffset + 8)),
        source_region_(source_->Register(nic_)),
        target_region_(target_->Register(nic_, {.remote_write = true})) {
    host::ConnectAll(std::array{&endpoint_}, exchange_, Limit());
    peer_ = exchange_.Swap(target_region_.View().Remote(), "the targets", Limit());
    if (rank == 0)
      std::printf("%s\n%s", warpverbs::bench::NicLabel(nic_).c_str(), endpoint_.Describe().c_str());
  }

  arch::Scope scope() const { return endpoint_.ReleaseScope(); }
  int rank() const { return rank_; }
  uint64_t* source() const { return reinterpret_cast<uint64_t*>(source_->data()); }
  uint64_t* target() const { return reinterpret_cast<uint64_t*>(target_->data()); }
  void Barrier() { exchange_.Swap(std::string_view("here"), "a barrier", Limit()); }

  template <class A>
  Warpverbs<A> Library() const {
    return {endpoint_.View(), source_region_.View().Local(), peer_, target() + kSignalOffset / 8};
  }

 private:
  static host::Deadline Limit() { return host::DeadlineIn(std::chrono::seconds(90)); }

  const int rank_;
  host::TcpExchange exchange_;
  host::Device nic_;
  host::Endpoint endpoint_;
  std::unique_ptr<host::Buffer> source_, target_;
  host::MemoryRegion source_region_, target_region_;
  device::RemoteMemory peer_{};
};

/// The same, for kernels whose releases reach as far as `A` says.
template <class A>
struct Side {
  Connected& connected;

  int rank() const { return connected.rank(); }
  Warpverbs<A> library() const { return connected.Library<A>(); }
  uint64_t* source() const { return connected.source(); }
  uint64_t* target() const { return connected.target(); }
  void Barrier() const { connected.Barrier(); }
};

template <class A>
int Measure(Connected& connected, const std::string& name) {
  Side<A> side{connected};
  return stacks::Run<Warpverbs<A>>(side, name);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "Usage: warpverbs_puts RANK PORT_FILE gpu|host|host-posts\n");
    return 2;
  }
  const int rank = std::atoi(argv[1]);
  stacks::UseGpu(rank);
  const host::Gpu gpu(rank % host::Gpu::Count());
  Connected connected(rank, gpu, argv[2], argv[3]);
  const std::string name = std::string("warpverbs, ") + argv[3];
  return connected.scope() == arch::Scope::kGpu ? Measure<arch::Cuda>(connected, name)
                                                : Measure<arch::CudaSystem>(connected, name);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
