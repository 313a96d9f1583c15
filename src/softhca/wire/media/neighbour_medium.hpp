#pragma once

#include <deque>
#include <map>
#include <vector>

#include "wire/media/socket.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// Carries whole frames between the processes of a host, in Unix datagrams to sockets that are named by MAC.
///
/// It serves what no UDP socket of the host can carry: RoCE v1, and addresses that no interface has. A
/// process that takes nothing, such as one that is stopped, holds up what goes to it, not what goes to
/// others.
class NeighbourMedium : public Medium {
 public:
  /// @errors  CommandError: somebody else has one of the addresses
  explicit NeighbourMedium(const std::vector<Mac>& own);

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void AddDescriptors(std::vector<int>& descriptors) const override;
  bool HasUnsent() const override { return !waiting_.empty(); }

 private:
  /// Unix sockets queue few datagrams; a sender keeps the rest itself, for each receiver as much as an IP
  /// socket's buffer holds.
  static constexpr size_t kMostWaiting = 2048;

  bool TrySend(std::span<const uint8_t> frame) const;
  size_t ReceiveAt(const Descriptor& socket, size_t most, const FrameSink& sink);

  std::vector<Descriptor> sockets_;
  std::map<Mac, std::deque<std::vector<uint8_t>>> waiting_;  ///< by receiver, none empty
  std::vector<uint8_t> buffer_;
};

}  // namespace softhca
