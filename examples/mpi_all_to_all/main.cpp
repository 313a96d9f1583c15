// All ranks of an MPI program write to all others by RDMA, from CPU threads.
//
// It teaches to connect many peers: MPI exchanges the descriptions of endpoints and the keys, RDMA carries
// the data. Each pair of ranks has an endpoint of its own.
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
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
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/mpi_exchange.hpp"
#include "warpverbs/host/queue_error.hpp"

using namespace warpverbs;

namespace {

constexpr size_t kWords = 4096;  // from each rank to every other
constexpr std::chrono::seconds kTimeout(60);

uint64_t WordOf(int from, int to, size_t index) {
  return (uint64_t{1} << 63) | uint64_t(from) << 48 | uint64_t(to) << 32 | index;
}

/// The kernel: one thread for each peer runs it.
template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + std::chrono::nanoseconds(kTimeout).count()};
  const device::Posted posted = queue.Post(device::Write(to, from), limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  return status;
}

/// The endpoint and buffers of this rank for one peer.
struct PeerLink {
  PeerLink(const host::Device& device, int peer_rank)
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
    remote = exchange.Swap(target_region.View().Remote(), "where to write", deadline);
    for (size_t i = 0; i < kWords; ++i) Words(source)[i] = WordOf(rank, peer, i);
  }

  device::Status Write() const {
    return Put<arch::Cpu>(endpoint.View(), remote, source_region.View().Local());
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
  device::RemoteMemory remote{};
  device::Status status{.code = device::Code::kPending};
};

/// Returns whether this rank received the right words from all others.
///
/// @param wrong  rank that writes a wrong word, so that a test sees it found; -1: none
bool AllToAll(int rank, int ranks, int wrong) {
  const host::Device device;
  const host::Deadline deadline = host::DeadlineIn(kTimeout);
  std::vector<std::unique_ptr<PeerLink>> links;
  // Each round pairs the ranks, so that no rank waits for one that waits for a third.
  for (int round = 0; round < ranks; ++round) {
    const int peer = (round - rank + ranks) % ranks;
    if (peer == rank) continue;
    links.push_back(std::make_unique<PeerLink>(device, peer));
    links.back()->Connect(rank, deadline);
    if (rank == wrong) links.back()->Words(links.back()->source)[kWords / 2] ^= 1;
  }
  {
    std::vector<std::jthread> posters;
    for (auto& link : links) posters.emplace_back([&link] { link->status = link->Write(); });
  }
  for (const auto& link : links) {
    if (link->status.ok()) continue;
    throw std::runtime_error("The write to rank " + std::to_string(link->peer) +
                             " failed: " + host::Describe(link->status) + ".");
  }
  MPI_Barrier(MPI_COMM_WORLD);  // all writes of all ranks are complete
  for (const auto& link : links) {
    if (const size_t words = link->WrongWords(rank); words != 0) {
      std::fprintf(stderr, "rank %d: %zu words of rank %d are wrong.\n", rank, words, link->peer);
      return false;
    }
  }
  std::printf("rank %d: %zu words from each of %zu ranks are right\n", rank, kWords, links.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::puts(
        "Teaches RDMA between many peers: each rank writes to every other rank. Options: --wrong RANK, "
        "--help.");
    return 0;
  }
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int failed = 0, any_failed = 0;
  try {
    failed = !AllToAll(rank, ranks, argc == 3 && std::string(argv[1]) == "--wrong" ? std::stoi(argv[2]) : -1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);  // ends the other ranks
  }
  // All ranks end alike: with Open MPI, mpiexec may hang if several ranks abort at once.
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any_failed;
}
