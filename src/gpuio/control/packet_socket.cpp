#include "gpuio/control/packet_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gpuio/control/messages.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

int AddressOf(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::copy(path.begin(), path.end(), address.sun_path);
  return 0;
}

int OpenSocket(int flags, host::FileDescriptor& opened) {
  opened = host::FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  return opened ? 0 : errno;
}

}  // namespace

int ConnectPackets(const std::string& path, host::FileDescriptor& connected) {
  sockaddr_un address{};
  host::FileDescriptor opened;
  int error = AddressOf(path, address);
  if (error == 0) error = OpenSocket(0, opened);
  if (error != 0) return error;
  while (connect(opened.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINTR) return errno;
  }
  connected = std::move(opened);
  return 0;
}

int ListenForPackets(const std::string& path, host::FileDescriptor& listening) {
  constexpr int kBacklog = 128;
  sockaddr_un address{};
  host::FileDescriptor opened;
  int error = AddressOf(path, address);
  if (error == 0) error = OpenSocket(SOCK_NONBLOCK, opened);
  if (error != 0) return error;
  fchmod(opened.get(), S_IRUSR | S_IWUSR);  // before bind(): the name has these permissions from the start
  if (bind(opened.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return errno;
  if (listen(opened.get(), kBacklog) != 0) return errno;
  listening = std::move(opened);
  return 0;
}

int SendPacket(int socket, std::span<const uint8_t> bytes, int file) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int ReceivePacket(int socket, Packet& packet) {
  constexpr size_t kMaxFiles = 8;
  packet.bytes.resize(kMaxControlBytes);
  packet.file.Close();
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFiles)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = 0;
  do received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < 0) return errno;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(header) + at, sizeof file);
      host::FileDescriptor owned(file);
      if (!packet.file) packet.file = std::move(owned);
    }
  }
  if (received == 0) return EPIPE;
  if ((message.msg_flags & MSG_TRUNC) != 0) return EMSGSIZE;
  packet.bytes.resize(static_cast<size_t>(received));
  return 0;
}

}  // namespace warpverbs::inline v0_2::gpuio
