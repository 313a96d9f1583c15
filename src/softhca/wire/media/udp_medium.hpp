#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "wire/frame.hpp"
#include "wire/media/socket.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// An address at which a UDP medium receives.
struct UdpAddress {
  Gid gid{};
  Mac mac{};
  uint32_t scope = 0;  ///< index of the interface; needed for link-local IPv6
};

/// Carries RoCE v2 over UDP sockets: the kernel adds and removes Ethernet, IP and UDP headers.
///
/// The medium rebuilds the headers of a received frame. Addresses, traffic class and hop limit come from the
/// kernel. For an IPv4 header it assumes "don't fragment" and identification 0, as Linux's UDP sockets send
/// it.
///
/// The ICRC covers the identification. A peer that counts its packets there can be received through raw
/// sockets only. The UDP sockets then just hold the port, so that the kernel does not report it as
/// unreachable.
class UdpMedium : public Medium {
 public:
  /// @param raw  receive IPv4 through raw sockets
  /// @errors  CommandError: the standard port of an address is taken, the address is not one of this host, or
  ///          raw sockets are not permitted
  UdpMedium(const std::vector<UdpAddress>& addresses, bool raw);
  ~UdpMedium() override;

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void SetGroups(const std::set<Gid>& groups) override;
  void AddDescriptors(std::vector<int>& descriptors) const override;

 private:
  struct Batch;
  struct Receiver {
    UdpAddress address;
    Descriptor socket;
    Descriptor raw;        ///< delivers IP headers too; none: receive with `socket`
    uint32_t dropped = 0;  ///< datagrams that the socket has dropped, modulo 2^32, as far as reported
    int descriptor() const { return raw ? raw.get() : socket.get(); }
  };
  /// Socket and source port of a flow.
  struct Sender {
    int socket = -1;
    uint16_t port = kRoceUdpPort;  ///< requested port, or the standard port if that is taken
  };

  static Receiver OpenReceiver(const UdpAddress& address, bool raw);
  static Receiver OpenGroup(const Gid& group, const UdpAddress& via, bool raw);
  const Receiver* Find(const Gid& source) const;
  const Sender& SenderOf(const Receiver& receiver, uint16_t port);
  std::span<const uint8_t> Rebuild(Receiver& receiver, size_t slot);
  size_t ReceiveAt(Receiver& receiver, size_t most, const FrameSink& sink);

  bool raw_;
  std::vector<Receiver> receivers_;
  /// Receivers of multicast groups, by group and interface.
  std::map<std::pair<Gid, uint32_t>, Receiver> groups_;
  std::map<std::pair<Gid, uint16_t>, Sender> senders_;
  std::vector<Descriptor> source_sockets_;
  std::unique_ptr<Batch> outgoing_, incoming_;
};

}  // namespace softhca
