#pragma once

#include <cstdint>
#include <span>

#include "cm/transaction.hpp"

namespace softhca::cm {

/// One side's state machine for finding the queue pair of a datagram service.
///
/// The asking side calls Ask() and gets kEstablished or kUnreachable. The other side gets the query from a
/// listener and calls Answer(). A call that the state does not allow changes nothing and returns false.
///
/// @source  IBTA 1.4, 12.11
class ServiceQuery : public Transaction {
 public:
  using Transaction::Transaction;
  /// Creates the answering side's query from a request.
  ServiceQuery(Outlet& outlet, uint32_t local_id, const Route& route, const Message& message,
               const SidrReq& req);

  bool Ask(uint64_t service_id, std::span<const uint8_t> private_data);
  /// @param qpn, qkey  used with kValid only
  bool Answer(SidrStatus status, uint32_t qpn, uint32_t qkey, std::span<const uint8_t> private_data);

  uint32_t qpn() const { return qpn_; }
  uint32_t qkey() const { return qkey_; }
  void OnMessage(const Message& message) override;

 private:
  enum class State : uint8_t { kIdle, kAsked, kWasAsked, kAnswered };

  void OnExpiry() override;
  void Leave() override;
  bool Lingers() const override { return false; }

  State state_ = State::kIdle;
  uint64_t service_id_ = 0;
  uint32_t qpn_ = 0, qkey_ = 0;
  SidrRep answer_;
};

}  // namespace softhca::cm
