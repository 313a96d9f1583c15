#pragma once

#include <string>

#include "../peer/messages.hpp"

namespace interop {

/// A peer in another process or machine. Throws std::runtime_error when it does not answer within a few
/// seconds.
class RemoteParty {
 public:
  /// @param path  the peer's Unix socket; waits until it is there and the peer answers, `patience_ms` at most
  RemoteParty(std::string name, std::string path, int patience_ms);
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
