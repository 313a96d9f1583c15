#pragma once

#include <deque>
#include <string>
#include <vector>

#include "wire/media/neighbours.hpp"
#include "wire/media/socket.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// A cable to one other machine: whole Ethernet frames in Unix datagrams, like QEMU's `-netdev dgram`.
///
/// There is no kernel to resolve Ethernet addresses, so the medium does it; frames wait until theirs is
/// known.
class CableMedium : public Medium {
 public:
  /// @param local   path of the socket to create; a socket left there by a dead process is replaced
  /// @param remote  path of the other end's socket, which may be created later
  /// @errors  CommandError
  CableMedium(const std::string& local, const std::string& remote, std::vector<WireAddress> own);
  ~CableMedium() override;

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override {}
  size_t Receive(size_t most, const FrameSink& sink) override;
  void AddDescriptors(std::vector<int>& descriptors) const override { descriptors.push_back(socket_.get()); }

 private:
  static constexpr size_t kMaxWaiting = 256;

  void Put(std::span<const uint8_t> frame) const;
  void SendWaiting();

  std::string local_, remote_;
  Descriptor socket_;
  Neighbours neighbours_;
  std::deque<std::vector<uint8_t>> waiting_;  ///< frames whose Ethernet address is not known yet
  std::vector<uint8_t> buffer_;
};

}  // namespace softhca
