#include "wire/media/udp_medium.hpp"

#include <linux/filter.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/address_table.hpp"

namespace softhca {
namespace {

constexpr size_t kBatch = 64;
constexpr size_t kMaxSourceSockets = 256;
/// Space for the headers that the kernel has removed: kMaxFrameHeaderBytes rounded up.
constexpr size_t kHeadroom = 64;
constexpr size_t kSlotBytes = (kMaxFrameBytes + kHeadroom + 63) / 64 * 64;
constexpr int kOn = 1;

void Set(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

/// Opens a socket with this medium's options, bound to `port` of an address.
///
/// @return  none if the socket, the address or the port is not available, with errno set
Descriptor OpenAt(const UdpAddress& address, uint16_t port) {
  const SocketAddress at = ToSocketAddress(address.gid, port, address.scope);
  Descriptor socket = TryOpenSocket(at.any.sa_family, SOCK_DGRAM, IPPROTO_UDP);
  if (!socket) return socket;
  const int fd = socket.get();
  if (at.any.sa_family == AF_INET) {
    Set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    Set(fd, IPPROTO_IP, IP_RECVTOS, kOn);
    Set(fd, IPPROTO_IP, IP_RECVTTL, kOn);
    Set(fd, SOL_SOCKET, SO_NO_CHECK, kOn);
  } else {
    Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, kOn);
    Set(fd, IPPROTO_IPV6, IPV6_FREEBIND, kOn);  // the kernel may still check it for duplicates
    Set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    Set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, kOn);
    Set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, kOn);
    Set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, kOn);
    Set(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, kOn);
    Set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(address.scope));
  }
  if (IsMulticast(address.gid)) Set(fd, SOL_SOCKET, SO_REUSEADDR, kOn);  // each process is a member
  return bind(fd, &at.any, at.bytes) == 0 ? std::move(socket) : Descriptor();
}

/// Makes a socket receive the packets to a group that arrive at the interface of an own address.
bool Join(int fd, const Gid& group, const UdpAddress& via) {
  const SocketAddress to = ToSocketAddress(group, 0), own = ToSocketAddress(via.gid, 0);
  if (IsIpv4(group)) {
    Set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    const ip_mreqn member{.imr_multiaddr = to.v4.sin_addr, .imr_address = own.v4.sin_addr, .imr_ifindex = 0};
    return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) == 0;
  }
  Set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  const ipv6_mreq member{.ipv6mr_multiaddr = to.v6.sin6_addr, .ipv6mr_interface = via.scope};
  return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof member) == 0;
}

/// Makes a socket accept only packets that pass a classic BPF filter.
template <size_t kCount>
void Filter(int fd, std::array<sock_filter, kCount> code) {
  const sock_fprog program{.len = kCount, .filter = code.data()};
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/// Opens a raw socket that receives the IPv4 packets to an address and the standard port.
Descriptor OpenRawAt(const UdpAddress& address) {
  Descriptor socket = OpenSocket(AF_INET, SOCK_RAW, IPPROTO_UDP);
  Filter(socket.get(), std::to_array<sock_filter>({
                           BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),  // X = bytes of the IP header
                           BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),   // destination port, after the IP header
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRoceUdpPort, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, 0xffff),
                           BPF_STMT(BPF_RET | BPF_K, 0),
                       }));
  const SocketAddress at = ToSocketAddress(address.gid, 0);
  if (bind(socket.get(), &at.any, at.bytes) != 0) {
    RefuseSocket("cannot receive at " + ToString(address.gid), "use an address of this host");
  }
  // Before it was bound, the socket received packets to other addresses. New ones may come all the time.
  constexpr int kMostPackets = 1 << 16;
  uint8_t byte = 0;
  for (int i = 0; i < kMostPackets && recv(socket.get(), &byte, sizeof byte, MSG_DONTWAIT) >= 0; ++i)
    continue;
  return socket;
}

/// Appends a control message that holds an int.
void AddControl(msghdr& message, int level, int type, int value) {
  auto* const header =
      reinterpret_cast<cmsghdr*>(static_cast<uint8_t*>(message.msg_control) + message.msg_controllen);
  header->cmsg_level = level;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(header), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

/// Reads the control messages of a received datagram: fields of the IP header, and the number of datagrams
/// that the socket has dropped, modulo 2^32.
void ReadControl(msghdr& message, Flow& flow, uint32_t& dropped) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    int value = 0;
    std::memcpy(&value, CMSG_DATA(header), std::min<size_t>(sizeof value, header->cmsg_len - CMSG_LEN(0)));
    const bool v4 = header->cmsg_level == IPPROTO_IP, v6 = header->cmsg_level == IPPROTO_IPV6;
    if ((v4 && header->cmsg_type == IP_TOS) || (v6 && header->cmsg_type == IPV6_TCLASS)) {
      flow.traffic_class = static_cast<uint8_t>(value);
    }
    if ((v4 && header->cmsg_type == IP_TTL) || (v6 && header->cmsg_type == IPV6_HOPLIMIT)) {
      flow.hop_limit = static_cast<uint8_t>(value);
    }
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL) {
      dropped = static_cast<uint32_t>(value);
    }
  }
}

}  // namespace

/// Datagrams to send or receive with a single system call.
struct UdpMedium::Batch {
  static constexpr size_t kControlBytes = 96;  // three integers

  Batch() : bytes(kBatch * kSlotBytes) {
    for (size_t i = 0; i < kBatch; ++i) Prepare(i);
  }

  uint8_t* Payload(size_t i) { return bytes.data() + i * kSlotBytes + kHeadroom; }

  /// Prepares a slot to receive.
  void Prepare(size_t i) {
    parts[i] = {.iov_base = Payload(i), .iov_len = kSlotBytes - kHeadroom};
    messages[i].msg_hdr = {.msg_name = &addresses[i].any,
                           .msg_namelen = sizeof(sockaddr_in6),
                           .msg_iov = &parts[i],
                           .msg_iovlen = 1,
                           .msg_control = controls[i].data(),
                           .msg_controllen = kControlBytes,
                           .msg_flags = 0};
  }

  std::vector<uint8_t> bytes;
  std::array<SocketAddress, kBatch> addresses;
  std::array<iovec, kBatch> parts;
  alignas(cmsghdr) std::array<std::array<uint8_t, kControlBytes>, kBatch> controls;
  std::array<mmsghdr, kBatch> messages;
  std::array<int, kBatch> sockets;
  size_t count = 0;
};

UdpMedium::UdpMedium(const std::vector<UdpAddress>& addresses, bool raw)
    : raw_(raw), outgoing_(std::make_unique<Batch>()), incoming_(std::make_unique<Batch>()) {
  for (const UdpAddress& address : addresses) receivers_.push_back(OpenReceiver(address, raw));
}

UdpMedium::Receiver UdpMedium::OpenReceiver(const UdpAddress& address, bool raw) {
  Descriptor socket = OpenAt(address, kRoceUdpPort);
  if (!socket) {
    RefuseSocket("cannot use UDP port 4791 of " + ToString(address.gid),
                 "another process may use the address; give each process its own, or stop that one");
  }
  Descriptor raw_socket;
  if (raw && IsIpv4(address.gid)) {
    raw_socket = OpenRawAt(address);
    Filter(socket.get(), std::to_array<sock_filter>({BPF_STMT(BPF_RET | BPF_K, 0)}));
  }
  Receiver receiver{address, std::move(socket), std::move(raw_socket)};
  Set(receiver.descriptor(), SOL_SOCKET, SO_RXQ_OVFL, kOn);
  return receiver;
}

/// Opens a receiver of the frames to a group that arrive at the interface of an own address.
UdpMedium::Receiver UdpMedium::OpenGroup(const Gid& group, const UdpAddress& via, bool raw) {
  Receiver receiver = OpenReceiver({.gid = group, .mac = GuessMac(group), .scope = via.scope}, raw);
  if (!Join(receiver.descriptor(), group, via)) {
    RefuseSocket("cannot join the multicast group " + ToString(group),
                 "see that " + ToString(via.gid) + " is an address of this host");
  }
  return receiver;
}

void UdpMedium::SetGroups(const std::set<Gid>& groups) {
  std::erase_if(groups_, [&](const auto& entry) { return !groups.contains(entry.first.first); });
  for (const Gid& group : groups) {
    for (const Receiver& own : receivers_) {
      const std::pair key{group, own.address.scope};
      if (IsIpv4(own.address.gid) == IsIpv4(group) && !groups_.contains(key))
        groups_.emplace(key, OpenGroup(group, own.address, raw_));
    }
  }
}

UdpMedium::~UdpMedium() = default;

const UdpMedium::Receiver* UdpMedium::Find(const Gid& source) const {
  const auto found = std::find_if(receivers_.begin(), receivers_.end(),
                                  [&](const Receiver& receiver) { return receiver.address.gid == source; });
  return found == receivers_.end() ? nullptr : &*found;
}

const UdpMedium::Sender& UdpMedium::SenderOf(const Receiver& receiver, uint16_t port) {
  const auto [found, fresh] =
      senders_.try_emplace({receiver.address.gid, port}, Sender{receiver.socket.get(), kRoceUdpPort});
  if (fresh && port != kRoceUdpPort && source_sockets_.size() < kMaxSourceSockets) {
    if (Descriptor socket = OpenAt(receiver.address, port)) {
      found->second = {socket.get(), port};
      source_sockets_.push_back(std::move(socket));
    }
  }
  return found->second;
}

void UdpMedium::Send(std::span<const uint8_t> bytes) {
  const std::optional<Frame> frame = ParseFrame(bytes);
  const Receiver* const from = frame ? Find(frame->flow.source) : nullptr;
  if (from == nullptr) return Lose("its source is no address of this host");
  const Flow& flow = frame->flow;
  const Sender& sender = SenderOf(*from, flow.source_port);
  if (outgoing_->count == kBatch) Flush();
  const size_t i = outgoing_->count++;
  uint8_t* const payload = outgoing_->Payload(i);
  std::copy(frame->transport.begin(), frame->transport.end(), payload);
  if (sender.port != flow.source_port && IsSealed(*frame)) {  // the ICRC covers the port
    Flow actual = flow;
    actual.source_port = sender.port;
    const size_t headers = FrameHeaderBytes(actual);
    const std::span<uint8_t> whole(payload - headers, headers + frame->transport.size());
    WriteFrameHeaders(actual, frame->transport.size(), whole);
    SealFrame(whole);
  }
  const bool v4 = IsIpv4(flow.destination);
  outgoing_->sockets[i] = sender.socket;
  outgoing_->addresses[i] = ToSocketAddress(flow.destination, kRoceUdpPort, from->address.scope);
  outgoing_->parts[i].iov_len = frame->transport.size();
  msghdr& message = outgoing_->messages[i].msg_hdr;
  message.msg_namelen = outgoing_->addresses[i].bytes;
  message.msg_controllen = 0;
  AddControl(message, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, flow.traffic_class);
  AddControl(message, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, flow.hop_limit);
}

void UdpMedium::Flush() {
  Batch& batch = *outgoing_;
  for (size_t first = 0; first < batch.count;) {
    const int socket = batch.sockets[first];
    size_t end = first + 1;
    while (end < batch.count && batch.sockets[end] == socket) ++end;
    const int sent = sendmmsg(socket, &batch.messages[first], static_cast<unsigned>(end - first), 0);
    if (sent <= 0) Lose("the host cannot send it");
    first += sent > 0 ? static_cast<size_t>(sent) : 1;
  }
  batch.count = 0;
}

size_t UdpMedium::Receive(size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (Receiver& receiver : receivers_) count += ReceiveAt(receiver, most, sink);
  // The kernel returns what this process has sent to a group.
  for (auto& [key, receiver] : groups_) {
    count += ReceiveAt(receiver, most, [&](std::span<const uint8_t> frame) {
      if (Find(ParseFrame(frame)->flow.source) == nullptr) sink(frame);
    });
  }
  return count;
}

/// Restores the headers that the kernel has removed, in front of the received bytes.
std::span<const uint8_t> UdpMedium::Rebuild(Receiver& receiver, size_t slot) {
  const size_t bytes = incoming_->messages[slot].msg_len;
  uint8_t* const received = incoming_->Payload(slot);
  Flow flow{.destination_mac = receiver.address.mac,
            .source = ToGid(incoming_->addresses[slot]),
            .destination = receiver.address.gid};
  flow.source_mac = GuessMac(flow.source);
  flow.source_port = ntohs(incoming_->addresses[slot].v4.sin_port);  // at the same offset for IPv6
  uint32_t dropped = receiver.dropped;
  ReadControl(incoming_->messages[slot].msg_hdr, flow, dropped);
  if (const uint32_t more = dropped - std::exchange(receiver.dropped, dropped); more != 0)
    Lose("the receiver's queue is full", more);
  const size_t headers = FrameHeaderBytes(flow);
  std::array<uint8_t, kMaxFrameHeaderBytes> all;
  WriteFrameHeaders(flow, bytes, all);
  const size_t missing = receiver.raw ? kEthernetHeaderBytes : headers;
  std::copy_n(all.data(), missing, received - missing);
  return {received - missing, missing + bytes};
}

size_t UdpMedium::ReceiveAt(Receiver& receiver, size_t most, const FrameSink& sink) {
  const auto wanted = static_cast<unsigned>(std::min(most, kBatch));
  const int received = recvmmsg(receiver.descriptor(), incoming_->messages.data(), wanted, 0, nullptr);
  for (int i = 0; i < received; ++i) {
    const auto slot = static_cast<size_t>(i);
    sink(Rebuild(receiver, slot));
    incoming_->Prepare(slot);
  }
  return static_cast<size_t>(std::max(received, 0));
}

void UdpMedium::AddDescriptors(std::vector<int>& descriptors) const {
  for (const Receiver& receiver : receivers_) descriptors.push_back(receiver.descriptor());
  for (const auto& [key, receiver] : groups_) descriptors.push_back(receiver.descriptor());
}

}  // namespace softhca
