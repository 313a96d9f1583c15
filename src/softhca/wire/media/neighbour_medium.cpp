#include "wire/media/neighbour_medium.hpp"

#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>

#include "wire/frame.hpp"
#include "wire/media/abstract_name.hpp"

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
  char text[sizeof "00:00:00:00:00:00"];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                mac[5]);
  UnixAddress name;
  const size_t length = OwnName(text).copy(name.address.sun_path + 1, sizeof name.address.sun_path - 1);
  name.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return name;
}

/// Receives a datagram.
///
/// @return  its length, or -1 if none is there; `own` tells whether a process of this user has sent it
ssize_t ReceiveFrom(int socket, std::span<uint8_t> buffer, bool& own) {
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(sizeof(ucred))> control;
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  own = false;
  for (cmsghdr* header = bytes < 0 ? nullptr : CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
    own = sender.uid == getuid();
  }
  return bytes;
}

}  // namespace

NeighbourMedium::NeighbourMedium(const std::vector<Mac>& own) : buffer_(kMaxFrameBytes) {
  for (const Mac& mac : own) {
    const UnixAddress name = SocketName(mac);
    sockets_.push_back(OpenSocket(AF_UNIX, SOCK_DGRAM, 0));
    constexpr int kOn = 1;
    setsockopt(sockets_.back().get(), SOL_SOCKET, SO_PASSCRED, &kOn, sizeof kOn);
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
    bool own = false;
    const ssize_t bytes = ReceiveFrom(socket.get(), buffer_, own);
    if (bytes < 0) break;
    if (!own) {
      Lose("from another user");
      continue;
    }
    sink({buffer_.data(), static_cast<size_t>(bytes)});
  }
  return count;
}

void NeighbourMedium::AddDescriptors(std::vector<int>& descriptors) const {
  for (const Descriptor& socket : sockets_) descriptors.push_back(socket.get());
}

}  // namespace softhca
