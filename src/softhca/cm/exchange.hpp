#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/message.hpp"
#include "core/hca.hpp"

namespace softhca::cm {

/// Between which ports messages travel, and from which of the own GIDs.
struct Route {
  Hca* hca = nullptr;
  uint8_t port = 1;
  uint8_t gid_index = 0;
  Gid destination{};

  const Gid& source() const { return hca->config().ports[port - 1u].gids[gid_index].gid; }
};

/// What has become of an exchange, for its user.
struct Event {
  enum class Kind : uint8_t {
    kReply,         ///< the peer grants the connection, and waits to be told that it stands
    kEstablished,   ///< the connection stands; or the datagram service was found
    kRejected,      ///< the peer refuses; `status` is its reason
    kUnreachable,   ///< no answer (-ETIMEDOUT), or no such datagram service (a SidrStatus)
    kDisconnected,  ///< by either side; -ETIMEDOUT: the peer said nothing to it
    kTimewaitExit,  ///< nothing of the connection is under way any more
  };
  Kind kind;
  int32_t status = 0;
  std::span<const uint8_t> private_data{};  ///< lies there for the call only
};

class User {
 public:
  virtual ~User() = default;
  /// @pre  does not release the exchange
  virtual void OnEvent(const Event& event) = 0;
};

/// What exchanges need of their surroundings.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void Send(const Route& route, const Message& message) = 0;
  virtual uint64_t NowNs() const = 0;
  /// An exchange wants its OnTime() to be called then.
  virtual void Arm(uint64_t deadline_ns) = 0;
  /// Which process has an address, as a number that no later one will have; 0: none.
  ///
  /// @return  nothing if that cannot be told: it is no address that processes of this host are given
  virtual std::optional<uint64_t> ProcessAt(const Gid& address) const = 0;
};

/// Messages between two sides about one thing: sends them again until they are answered.
class Exchange {
 public:
  Exchange(Outlet& outlet, uint32_t local_id, const Route& route)
      : outlet_(outlet), local_id_(local_id), route_(route) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  uint32_t local_id() const { return local_id_; }
  /// By which the peer knows it; nothing as long as it has not said.
  std::optional<uint32_t> remote_id() const { return remote_id_; }
  const Route& route() const { return route_; }
  /// Null: nobody is told anything.
  void set_user(User* user) { user_ = user; }

  virtual void OnMessage(const Message& message) = 0;
  void OnTime(uint64_t now_ns);
  uint64_t deadline_ns() const { return deadline_ns_; }

  /// Its user has no use for it any more. Tells the peer if that still waits for something.
  void Release();
  /// Whether nothing is left to be done: it has no user, and will answer no more messages.
  bool finished() const { return released_ && !Lingers(); }

  /// How often, and how soon, messages are sent again.
  static constexpr uint8_t kRetries = 15;
  static constexpr uint8_t kResponseTimeout = 17;  ///< 0.54 s

 protected:
  /// The last message was sent as often as may be, or the time of WaitFor() is over.
  virtual void OnExpiry() = 0;
  /// Takes leave from the peer.
  virtual void Leave() = 0;
  virtual bool Lingers() const = 0;

  template <class Body>
  void Send(const Body& body) {
    outlet_.Send(route_, {transaction_, body});
  }
  /// Sends at once, and again until StopWaiting().
  template <class Body>
  void SendUntilAnswered(const Body& body) {
    pending_ = {transaction_, body};
    retries_left_ = kRetries;
    outlet_.Send(route_, *pending_);
    SetDeadline(TimeoutNs(kResponseTimeout));
  }
  void SendAgain() { outlet_.Send(route_, *pending_); }
  /// Lets that much time pass before the next repetition or OnExpiry().
  void WaitFor(uint64_t ns) { SetDeadline(ns); }
  void StopWaiting();

  void Tell(const Event& event) {
    if (user_ != nullptr) user_->OnEvent(event);
  }
  /// The peer's.
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
  std::optional<Message> pending_;  ///< sent again until answered
  uint8_t retries_left_ = 0;
  uint64_t deadline_ns_ = UINT64_MAX;
};

/// Puts private data into a message.
///
/// @pre  it fits
template <size_t kBytes>
void Fill(std::array<uint8_t, kBytes>& field, std::span<const uint8_t> data) {
  std::copy(data.begin(), data.end(), field.begin());
}

}  // namespace softhca::cm
