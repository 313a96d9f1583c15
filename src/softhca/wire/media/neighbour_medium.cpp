#include "wire/media/neighbour_medium.hpp"

#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "wire/frame.hpp"

namespace softhca {
namespace {

struct UnixAddress {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t bytes = 0;

  const sockaddr* any() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// Returns the abstract socket name for a MAC: not a file, visible in the whole network namespace, and freed
/// when its process ends.
UnixAddress SocketName(const Mac& mac) {
  UnixAddress name;
  const int length =
      std::snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1,
                    "softhca/%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  name.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return name;
}

}  // namespace

NeighbourMedium::NeighbourMedium(const std::vector<Mac>& own) : buffer_(kMaxFrameBytes) {
  for (const Mac& mac : own) {
    const UnixAddress name = SocketName(mac);
    sockets_.push_back(OpenSocket(AF_UNIX, SOCK_DGRAM, 0));
    if (bind(sockets_.back().get(), name.any(), name.bytes) != 0) {
      RefuseSocket(std::string("cannot take the name ") + (name.address.sun_path + 1),
                   "another process uses the port's address");
    }
  }
}

/// @return  false if the receiver has no room now
bool NeighbourMedium::TrySend(std::span<const uint8_t> frame) const {
  const UnixAddress name = SocketName(DestinationMac(frame));
  const ssize_t sent = sendto(sockets_.front().get(), frame.data(), frame.size(), 0, name.any(), name.bytes);
  if (sent >= 0) return true;
  if (errno == EAGAIN) return false;
  Lose("no process has its destination address");
  return true;
}

void NeighbourMedium::Send(std::span<const uint8_t> frame) {
  const Mac receiver = DestinationMac(frame);
  if (!waiting_.contains(receiver) && TrySend(frame)) return;
  auto& queue = waiting_[receiver];
  if (queue.size() == kMaxWaiting) return Lose("the receiver's queue is full");
  queue.emplace_back(frame.begin(), frame.end());
}

void NeighbourMedium::Flush() {
  for (auto& [receiver, queue] : waiting_) {
    while (!queue.empty() && TrySend(queue.front())) queue.pop_front();
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
}

size_t NeighbourMedium::Receive(size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (const Descriptor& socket : sockets_) count += ReceiveAt(socket, most, sink);
  return count;
}

size_t NeighbourMedium::ReceiveAt(const Descriptor& socket, size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (; count < most; ++count) {
    const ssize_t bytes = recv(socket.get(), buffer_.data(), buffer_.size(), 0);
    if (bytes < 0) break;
    sink({buffer_.data(), static_cast<size_t>(bytes)});
  }
  return count;
}

void NeighbourMedium::AddDescriptors(std::vector<int>& descriptors) const {
  for (const Descriptor& socket : sockets_) descriptors.push_back(socket.get());
}

}  // namespace softhca
