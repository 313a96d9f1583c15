#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/message.hpp"
#include "core/hca.hpp"

namespace softhca::cm {

/// Path of messages: local port and GID, and the peer's GID.
struct Route {
  Hca* hca = nullptr;
  uint8_t port = 1;
  uint8_t gid_index = 0;
  Gid destination{};

  const Gid& source() const { return hca->config().ports[port - 1u].gids[gid_index].gid; }
};

/// State change of a transaction, reported to its user.
struct Event {
  enum class Kind : uint8_t {
    kReply,         ///< the peer accepted the connection and waits for the confirmation
    kEstablished,   ///< the connection is established, or the datagram service was found
    kRejected,      ///< the peer refused; `status` is its reason
    kUnreachable,   ///< no answer (-ETIMEDOUT), or the datagram service is unknown (a SidrStatus)
    kDisconnected,  ///< either side disconnected; -ETIMEDOUT: the peer did not answer
    kTimewaitExit,  ///< none of the connection's packets is in flight any more
  };
  Kind kind;
  int32_t status = 0;
  std::span<const uint8_t> private_data{};  ///< valid during the call only
};

/// Receives the events of a transaction.
class User {
 public:
  virtual ~User() = default;
  /// @pre  does not release the transaction
  virtual void OnEvent(const Event& event) = 0;
};

inline constexpr uint64_t kUnknownProcess = UINT64_MAX;

/// Services that transactions use: sending, time, and finding processes.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void Send(const Route& route, const Message& message) = 0;
  virtual uint64_t NowNs() const = 0;
  /// Schedules a call of the transaction's OnTime().
  virtual void Arm(uint64_t deadline_ns) = 0;
  /// Returns a number for the process that has an address, which no later process will have; 0: none has it;
  /// kUnknownProcess: it cannot be determined now.
  ///
  /// @return  nothing if the address is not one that processes of this host are given
  virtual std::optional<uint64_t> ProcessAt(const Gid& address) const = 0;
};

/// One message transaction with a peer. Repeats messages until they are answered.
class Transaction {
 public:
  Transaction(Outlet& outlet, uint32_t local_id, const Route& route)
      : outlet_(outlet), local_id_(local_id), route_(route) {}
  virtual ~Transaction() = default;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  uint32_t local_id() const { return local_id_; }
  /// Returns the peer's id for it; nothing until the peer has sent it.
  std::optional<uint32_t> remote_id() const { return remote_id_; }
  const Route& route() const { return route_; }
  /// Sets the receiver of events; null: none.
  void set_user(User* user) { user_ = user; }

  virtual void OnMessage(const Message& message) = 0;
  void OnTime(uint64_t now_ns);
  uint64_t deadline_ns() const { return deadline_ns_; }

  /// Detaches the user. Notifies the peer if it still waits for a message.
  void Release();
  /// Returns whether the transaction can be destroyed: it has no user and will not answer any message.
  bool finished() const { return released_ && !Lingers(); }

  /// Number and interval of repetitions.
  static constexpr uint8_t kRetries = 15;
  static constexpr uint8_t kResponseTimeout = 17;  ///< 0.54 s

 protected:
  /// Handles the end of the repetitions, or of the time set by WaitFor().
  virtual void OnExpiry() = 0;
  /// Tells the peer that this side has gone.
  virtual void Leave() = 0;
  virtual bool Lingers() const = 0;

  template <class Body>
  void Send(const Body& body) {
    outlet_.Send(route_, {transaction_, body});
  }
  /// Sends a message now, and repeats it until StopWaiting().
  template <class Body>
  void SendUntilAnswered(const Body& body) {
    pending_ = {transaction_, body};
    retries_left_ = kRetries;
    outlet_.Send(route_, *pending_);
    SetDeadline(TimeoutNs(kResponseTimeout));
  }
  void SendAgain() { outlet_.Send(route_, *pending_); }
  /// Sets the time until the next repetition or OnExpiry().
  void WaitFor(uint64_t ns) { SetDeadline(ns); }
  void StopWaiting();

  void Notify(const Event& event) {
    if (user_ != nullptr) user_->OnEvent(event);
  }
  /// Returns the process that has the peer's address.
  std::optional<uint64_t> RemoteProcess() const { return outlet_.ProcessAt(route_.destination); }
  void set_remote_id(uint32_t id) { remote_id_ = id; }
  void set_transaction(uint64_t transaction) { transaction_ = transaction; }

 private:
  void SetDeadline(uint64_t ns_from_now);

  Outlet& outlet_;
  uint32_t local_id_;
  Route route_;
  std::optional<uint32_t> remote_id_;
  uint64_t transaction_ = 0;
  User* user_ = nullptr;
  bool released_ = false;
  std::optional<Message> pending_;  ///< message repeated until it is answered
  uint8_t retries_left_ = 0;
  uint64_t deadline_ns_ = UINT64_MAX;
};

/// Copies private data to a message.
///
/// @pre  it fits
template <size_t kBytes>
void Fill(std::array<uint8_t, kBytes>& field, std::span<const uint8_t> data) {
  std::copy(data.begin(), data.end(), field.begin());
}

}  // namespace softhca::cm
