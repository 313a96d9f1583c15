#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "wire/media/socket.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// Carries whole frames between the processes of a host, in Unix datagrams to sockets that are named by MAC.
///
/// Used for frames that no UDP socket of the host can carry: RoCE v1, addresses that no interface has, and
/// InfiniBand, which this medium is the subnet of: a LID stands for the MAC of its port. A
/// process that receives nothing, for example because it is stopped, delays only frames to itself.
///
/// The members of a multicast group take names that begin with the group's; its frames go to each of them.
class NeighbourMedium : public Medium {
 public:
  /// Returns the name of the socket that receives the frames to an address.
  static std::string NameOf(const Mac& mac);

  /// @errors  CommandError: another process uses one of the addresses
  explicit NeighbourMedium(const std::vector<Mac>& own, mlx5::PortType link = mlx5::PortType::kEthernet);

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void SetGroups(const std::set<Gid>& groups) override;
  void AddDescriptors(std::vector<int>& descriptors) const override;
  bool HasUnsent() const override { return !waiting_.empty(); }
  bool HasUnsentTo(const Mac& destination) const override;

 private:
  /// Unix sockets queue few datagrams, so the sender queues the rest: for each receiver, as many as an IP
  /// socket's buffer holds.
  static constexpr size_t kMaxWaiting = 2048;

  void SendTo(const std::string& name, std::span<const uint8_t> frame);
  bool TrySend(const std::string& name, std::span<const uint8_t> frame) const;
  size_t ReceiveAt(const Descriptor& socket, size_t most, const FrameSink& sink);

  mlx5::PortType link_;
  std::string own_;  ///< how this process is called among the members of a group
  std::vector<Descriptor> sockets_;
  std::map<Gid, Descriptor> groups_;
  std::map<std::string, std::deque<std::vector<uint8_t>>>
      waiting_;  ///< queued frames by the receiver's name; no queue is empty
  std::vector<uint8_t> buffer_;
};

}  // namespace softhca
