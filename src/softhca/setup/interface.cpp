#include "setup/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "wire/frame.hpp"
#include "wire/media/socket.hpp"

namespace softhca {
namespace {

using Entries = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

Entries ReadEntries() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw std::runtime_error(std::string("cannot list the network interfaces: ") + std::strerror(errno));
  }
  return {first, freeifaddrs};
}

uint32_t ReadMtu(const std::string& name) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? static_cast<uint32_t>(request.ifr_mtu) : 1500;
}

void Take(const sockaddr& from, Interface& interface) {
  SocketAddress address{};
  switch (from.sa_family) {
    case AF_PACKET: {
      const auto& link = reinterpret_cast<const sockaddr_ll&>(from);
      std::copy_n(link.sll_addr, std::min<size_t>(link.sll_halen, interface.mac.size()),
                  interface.mac.begin());
      return;
    }
    case AF_INET:
      std::memcpy(&address.v4, &from, sizeof address.v4);
      break;
    case AF_INET6:
      std::memcpy(&address.v6, &from, sizeof address.v6);
      break;
    default:
      return;
  }
  interface.addresses.push_back(ToGid(address));
}

}  // namespace

Interface ReadInterface(const std::string& name) {
  const Entries entries = ReadEntries();
  Interface interface;
  bool exists = false, up = false;
  for (const ifaddrs* entry = entries.get(); entry != nullptr; entry = entry->ifa_next) {
    if (name != entry->ifa_name) continue;
    exists = true;
    up = (entry->ifa_flags & IFF_UP) != 0;
    if (entry->ifa_addr != nullptr) Take(*entry->ifa_addr, interface);
  }
  if (!exists) throw std::runtime_error("interface '" + name + "' does not exist; see 'ip link'");
  if (!up) throw std::runtime_error("interface " + name + " is down; run 'ip link set " + name + " up'");
  if (interface.addresses.empty()) {
    throw std::runtime_error("interface " + name + " has no IP address; add one with 'ip address add'");
  }
  std::stable_partition(interface.addresses.begin(), interface.addresses.end(), IsIpv4);
  interface.index = if_nametoindex(name.c_str());
  interface.mtu = ReadMtu(name);
  return interface;
}

mlx5::Mtu FittingMtu(uint32_t interface_mtu) {
  constexpr uint32_t kHeaders = 40 + 8 + 12 + 4 + 28 + 4;  // IPv6, UDP, BTH, longest extended header, ICRC
  auto mtu = mlx5::Mtu::k4096;
  while (mtu > mlx5::Mtu::k256 && MtuBytes(mtu) + kHeaders > interface_mtu) {
    mtu = static_cast<mlx5::Mtu>(static_cast<uint32_t>(mtu) - 1);
  }
  return mtu;
}

}  // namespace softhca
