// All ranks of an MPI program write to all others by RDMA, from threads of the processor: MPI brings the
// ranks together, and no data go by it.
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/mpi_exchange.hpp"
#include "warpverbs/host/status_text.hpp"

using namespace warpverbs;

namespace {

constexpr size_t kWords = 4096;  // from each rank to each other
constexpr std::chrono::seconds kPatience(60);

/// Where a peer takes what this rank writes.
struct Landing {
  uint64_t address;
  uint32_t rkey;
};

uint64_t WordOf(int from, int to, size_t index) {
  return (uint64_t{1} << 63) | uint64_t(from) << 48 | uint64_t(to) << 32 | index;
}

/// The kernel: one thread for each peer.
template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + std::chrono::nanoseconds(kPatience).count()};
  const device::Posted posted = queue.Post(device::Write(to, from), limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  queue.Save();
  return status;
}

/// What this rank has for one other.
struct Channel {
  Channel(const host::Device& device, int peer_rank)
      : peer(peer_rank),
        endpoint(device),
        source(kWords * sizeof(uint64_t)),
        target(kWords * sizeof(uint64_t)),
        source_region(device, source.data(), source.size()),
        target_region(device, target.data(), target.size(), {.remote_write = true}) {}

  uint64_t* Words(const host::HostPages& pages) const { return reinterpret_cast<uint64_t*>(pages.data()); }

  void Connect(int rank, host::Deadline deadline) {
    host::MpiExchange exchange(MPI_COMM_WORLD, peer);
    host::Endpoint* const endpoints[] = {&endpoint};
    host::ConnectAll(endpoints, exchange, deadline, {.round_trip = true});
    const Landing own{target_region.View().addr, target_region.View().rkey};
    uint8_t bytes[sizeof own];
    std::memcpy(bytes, &own, sizeof own);
    const std::vector<uint8_t> theirs = exchange.Swap(bytes, "where to write", deadline);
    if (theirs.size() != sizeof landing) throw std::runtime_error("The peer is another program.");
    std::memcpy(&landing, theirs.data(), sizeof landing);
    for (size_t i = 0; i < kWords; ++i) Words(source)[i] = WordOf(rank, peer, i);
  }

  device::Status Write() const {
    const host::MemoryView from = source_region.View();
    return Put<arch::Cpu>(endpoint.View(), {landing.address, mlx5::ToBe32(landing.rkey)},
                          {from.addr, from.bytes, mlx5::ToBe32(from.lkey)});
  }

  size_t WrongWords(int rank) const {
    size_t wrong = 0;
    for (size_t i = 0; i < kWords; ++i) wrong += Words(target)[i] != WordOf(peer, rank, i);
    return wrong;
  }

  int peer;
  host::Endpoint endpoint;
  host::HostPages source, target;
  host::MemoryRegion source_region, target_region;
  Landing landing{};
  device::Status status{.code = device::Code::kPending};
};

/// @param wrong  a rank that writes something else, to see that it is found; or none
void AllToAll(int rank, int ranks, int wrong) {
  const host::Device device;
  const host::Deadline deadline = host::DeadlineIn(kPatience);
  std::vector<std::unique_ptr<Channel>> channels;
  // In each round the ranks are pairs, so that nobody waits for one who waits for another.
  for (int round = 0; round < ranks; ++round) {
    const int peer = (round - rank + ranks) % ranks;
    if (peer == rank) continue;
    channels.push_back(std::make_unique<Channel>(device, peer));
    channels.back()->Connect(rank, deadline);
    if (rank == wrong) channels.back()->Words(channels.back()->source)[kWords / 2] ^= 1;
  }
  {
    std::vector<std::jthread> posters;
    for (auto& channel : channels) posters.emplace_back([&channel] { channel->status = channel->Write(); });
  }
  for (const auto& channel : channels) {
    if (channel->status.ok()) continue;
    throw std::runtime_error("The write to rank " + std::to_string(channel->peer) +
                             " failed: " + host::Describe(channel->status) + ".");
  }
  MPI_Barrier(MPI_COMM_WORLD);  // all writes of all ranks are done
  for (const auto& channel : channels) {
    if (const size_t words = channel->WrongWords(rank); words != 0) {
      throw std::runtime_error(std::to_string(words) + " words of rank " + std::to_string(channel->peer) +
                               " are wrong.");
    }
  }
  std::printf("rank %d: %zu words from each of %zu ranks are right\n", rank, kWords, channels.size());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    AllToAll(rank, ranks, argc == 3 && std::string(argv[1]) == "--wrong" ? std::stoi(argv[2]) : -1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);  // the others need not wait
  }
  MPI_Finalize();
  return 0;
}
