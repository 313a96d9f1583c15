#pragma once

#include <string>

#include "../peer/messages.hpp"

namespace interop {

/// A peer in another process or machine.
///
/// @errors  std::runtime_error, from every call: the peer does not answer within a few seconds
class RemoteParty {
 public:
  /// Connects, and waits until the peer answers.
  ///
  /// @param path        the peer's Unix socket
  /// @param timeout_ms  longest time to wait for the socket, and then for the answer
  RemoteParty(std::string name, std::string path, int timeout_ms);
  ~RemoteParty();
  RemoteParty(const RemoteParty&) = delete;
  RemoteParty& operator=(const RemoteParty&) = delete;

  Answer Ask(const Command& command);

  const std::string& name() const { return name_; }
  bool is_rxe() const { return device_.starts_with("rxe"); }

 private:
  std::string name_;
  std::string path_;
  std::string device_;
  int socket_ = -1;
};

}  // namespace interop
