#include "connect/round_trip.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "connect/deadline_wait.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;

constexpr size_t kWords = 8;
constexpr size_t kBytes = kWords * sizeof(uint64_t);

/// Returns a word of the pattern that one queue pair writes to another. All words of all pairs differ, and
/// none is 0. SplitMix64.
uint64_t WordOf(uint32_t from_qpn, uint32_t to_qpn, size_t word) {
  uint64_t mixed = (uint64_t{from_qpn} << 40 | uint64_t{to_qpn} << 16 | (word + 1)) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

/// Converts a deadline to the posters' clock.
device::WaitLimit Until(Deadline deadline) {
  const auto left = std::max(deadline - std::chrono::steady_clock::now(), Deadline::duration::zero());
  const uint64_t now = Cpu::NowNs();
  const uint64_t most = ~uint64_t{0} - now;
  return {.deadline_ns = now + std::min<uint64_t>(most, std::chrono::nanoseconds(left).count())};
}

/// Posts, and waits in pieces for the completion, with a CallWaitCheck() after each.
device::Status PostAndWait(const Endpoint& endpoint, const auto& operation, Deadline deadline) {
  constexpr std::chrono::milliseconds kPiece(100);
  return device::WithSendQueue<Cpu>(endpoint.View(), [&](auto& queue) -> device::Status {
    const device::Posted posted = queue.Post(operation, Until(deadline));
    if (!posted.status.ok()) return posted.status;
    while (true) {
      const Deadline now = std::chrono::steady_clock::now();
      const Deadline end = deadline - now > kPiece ? now + kPiece : deadline;
      const device::Status status = queue.Wait(posted.ticket, Until(end));
      if (status.code != device::Code::kTimeout || end == deadline) return status;
      CallWaitCheck();
    }
  });
}

std::string Pair(uint32_t from_qpn, uint32_t to_qpn) {
  return "from QP " + std::to_string(from_qpn) + " to QP " + std::to_string(to_qpn);
}

}  // namespace

RoundTrip::RoundTrip(std::span<Endpoint* const> endpoints)
    : endpoints_(endpoints), pages_(std::max<size_t>(1, 2 * kBytes * endpoints.size())) {
  for (const Endpoint* const endpoint : endpoints) {
    if (endpoint->on_gpu()) {
      throw Error("make", "a round trip by QP " + std::to_string(endpoint->qpn()),
                  "its queue is in GPU memory, where host threads cannot post",
                  "Connect it without ConnectOptions::round_trip");
    }
    const Device& device = endpoint->device();
    if (regions_.contains(&device)) continue;
    regions_.emplace(
        std::piecewise_construct, std::forward_as_tuple(&device),
        std::forward_as_tuple(device, pages_.data(), pages_.size(), Access{.remote_write = true}));
  }
}

uint64_t* RoundTrip::Landing(size_t index) const {
  return reinterpret_cast<uint64_t*>(pages_.data()) + index * kWords;
}

uint64_t* RoundTrip::Source(size_t index) const { return Landing(endpoints_.size() + index); }

MemoryView RoundTrip::RegionOf(size_t index) const {
  return regions_.at(&endpoints_[index]->device()).View();
}

RoundTripBuffer RoundTrip::PlaceOf(size_t index) const {
  return {reinterpret_cast<uint64_t>(Landing(index)), RegionOf(index).rkey};
}

void RoundTrip::Write(size_t index, uint32_t peer_qpn, const RoundTripBuffer& place, Deadline deadline) {
  const Endpoint& endpoint = *endpoints_[index];
  uint64_t* const source = Source(index);
  for (size_t word = 0; word < kWords; ++word) source[word] = WordOf(endpoint.qpn(), peer_qpn, word);
  const device::RemoteMemory to{place.address, mlx5::ToBe32(place.rkey)};
  const device::LocalMemory from{reinterpret_cast<uint64_t>(source), kBytes,
                                 mlx5::ToBe32(RegionOf(index).lkey)};
  const device::Status status = PostAndWait(endpoint, device::Write(to, from), deadline);
  if (!status.ok()) {
    throw Error("write", "to the peer " + Pair(endpoint.qpn(), peer_qpn), Describe(status),
                "Check the network between the two, and that both endpoints allow remote writes");
  }
}

void RoundTrip::Check(size_t index, uint32_t peer_qpn, Deadline deadline) const {
  const uint32_t qpn = endpoints_[index]->qpn();
  uint64_t* const landing = Landing(index);
  while (true) {
    size_t right = 0;
    for (size_t word = 0; word < kWords; ++word)
      right += Cpu::Load(&landing[word]) == WordOf(peer_qpn, qpn, word);
    if (right == kWords) return;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error("verify", "the peer's write " + Pair(peer_qpn, qpn),
                  "only " + std::to_string(right * sizeof(uint64_t)) + " of " + std::to_string(kBytes) +
                      " bytes are correct",
                  "Check that the NIC may write to this machine's memory (IOMMU), and report this");
    }
    CallWaitCheck();
    std::this_thread::yield();
  }
}

}  // namespace warpverbs::inline v0_2::host
