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

/// An address that a UDP medium receives at.
struct UdpAddress {
  Gid gid{};
  Mac mac{};
  uint32_t scope = 0;  ///< index of the interface
};

/// Carries RoCE v2 in UDP sockets: the kernel makes Ethernet, IP and UDP headers, and takes them away.
///
/// What it hides of a received frame is put together again: the addresses, traffic class and hop limit from
/// what it tells; of an IPv4 header, "don't fragment" and identification 0, as Linux's UDP sockets send it. A
/// peer that counts its packets there needs raw sockets for receiving, since the ICRC covers it; the UDP
/// sockets then only keep the port, lest the kernel call it unreachable.
class UdpMedium : public Medium {
 public:
  /// @param raw  receive over IPv4 by raw sockets
  /// @errors  CommandError: the standard port of an address is taken, the address is not ours, or raw sockets
  ///          are not allowed
  UdpMedium(const std::vector<UdpAddress>& addresses, bool raw);
  ~UdpMedium() override;

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void AddDescriptors(std::vector<int>& descriptors) const override;

 private:
  struct Batch;
  struct Receiver {
    UdpAddress address;
    Descriptor socket;
    Descriptor raw;  ///< gives IP headers, too; none: receive by `socket`
    int descriptor() const { return raw ? raw.get() : socket.get(); }
  };
  /// Where a flow leaves from.
  struct Sender {
    int socket = -1;
    uint16_t port = kRoceUdpPort;  ///< the one asked for, or the standard port if that one is taken
  };

  const Receiver* Find(const Gid& source) const;
  const Sender& SenderOf(const Receiver& receiver, uint16_t port);
  std::span<const uint8_t> Rebuild(const Receiver& receiver, size_t slot);
  size_t ReceiveAt(const Receiver& receiver, size_t most, const FrameSink& sink);

  std::vector<Receiver> receivers_;
  std::map<std::pair<Gid, uint16_t>, Sender> senders_;
  std::vector<Descriptor> source_sockets_;
  std::unique_ptr<Batch> outgoing_, incoming_;
};

}  // namespace softhca
