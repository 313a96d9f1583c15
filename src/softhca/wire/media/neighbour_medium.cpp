#include "wire/media/neighbour_medium.hpp"

#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
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

std::string ToText(const Mac& mac) {
  char text[sizeof "00:00:00:00:00:00"];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                mac[5]);
  return text;
}

/// Returns the part of a name that all members of a group share.
std::string GroupName(const Gid& group) { return OwnName("group/" + ToString(group) + "/"); }

/// Returns the address of an abstract socket: not a file, visible in the whole network namespace, and freed
/// when its process ends.
UnixAddress AddressOf(const std::string& name) {
  UnixAddress address;
  const size_t length = name.copy(address.address.sun_path + 1, sizeof address.address.sun_path - 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

/// Opens a socket that receives frames for `name`, with their sender's user.
Descriptor Receiver(const std::string& name) {
  const UnixAddress address = AddressOf(name);
  Descriptor socket = OpenSocket(AF_UNIX, SOCK_DGRAM, 0);
  constexpr int kOn = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &kOn, sizeof kOn);
  if (bind(socket.get(), address.any(), address.bytes) != 0)
    RefuseSocket("cannot take the name " + name, "another process uses the port's address");
  return socket;
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

std::string NeighbourMedium::NameOf(const Mac& mac) { return OwnName(ToText(mac)); }

NeighbourMedium::NeighbourMedium(const std::vector<Mac>& own, mlx5::PortType link)
    : link_(link), buffer_(kMaxFrameBytes) {
  for (const Mac& mac : own) sockets_.push_back(Receiver(NameOf(mac)));
  if (!own.empty()) own_ = ToText(own.front());
}

void NeighbourMedium::SetGroups(const std::set<Gid>& groups) {
  std::erase_if(groups_, [&](const auto& entry) { return !groups.contains(entry.first); });
  for (const Gid& group : groups) {
    if (!groups_.contains(group)) groups_.emplace(group, Receiver(GroupName(group) + own_));
  }
}

/// @return  false if the receiver has no room now
bool NeighbourMedium::TrySend(const std::string& name, std::span<const uint8_t> frame) const {
  const UnixAddress address = AddressOf(name);
  const ssize_t sent =
      sendto(sockets_.front().get(), frame.data(), frame.size(), 0, address.any(), address.bytes);
  if (sent >= 0) return true;
  if (errno == EAGAIN) return false;
  Lose("no process has its destination address");
  return true;
}

void NeighbourMedium::Send(std::span<const uint8_t> bytes) {
  if (!IsGroupFrame(bytes, link_)) return SendTo(NameOf(DestinationMac(bytes, link_)), bytes);
  const std::optional<Frame> frame = ParseFrame(bytes, link_);
  if (!frame) return;
  const std::string group = GroupName(frame->flow.destination);
  for (const TakenName& member : ListNames(group)) {
    if (member.rest != own_) SendTo(group + member.rest, bytes);
  }
}

void NeighbourMedium::SendTo(const std::string& name, std::span<const uint8_t> frame) {
  if (!waiting_.contains(name) && TrySend(name, frame)) return;
  auto& queue = waiting_[name];
  if (queue.size() == kMaxWaiting) return Lose("the receiver's queue is full");
  queue.emplace_back(frame.begin(), frame.end());
}

void NeighbourMedium::Flush() {
  for (auto& [name, queue] : waiting_) {
    while (!queue.empty() && TrySend(name, queue.front())) queue.pop_front();
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
}

bool NeighbourMedium::HasUnsentTo(const Mac& destination) const {
  return !waiting_.empty() && waiting_.contains(NameOf(destination));
}

size_t NeighbourMedium::Receive(size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (const Descriptor& socket : sockets_) count += ReceiveAt(socket, most, sink);
  for (const auto& [group, socket] : groups_) count += ReceiveAt(socket, most, sink);
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
  for (const auto& [group, socket] : groups_) descriptors.push_back(socket.get());
}

}  // namespace softhca
