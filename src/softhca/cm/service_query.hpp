#pragma once

#include <cstdint>
#include <span>

#include "cm/exchange.hpp"

namespace softhca::cm {

/// The question which queue pair serves a datagram service, from one side.
///
/// The asking side calls Ask() and hears kEstablished or kUnreachable. The other side gets it from a listener
/// and calls Answer().
///
/// @return  of both calls: whether they fit the state
/// @source  IBTA 1.4, 12.11
class ServiceQuery : public Exchange {
 public:
  using Exchange::Exchange;
  /// The side that is asked.
  ServiceQuery(Outlet& outlet, uint32_t local_id, const Route& route, const Message& message,
               const SidrReq& req);

  bool Ask(uint64_t service_id, std::span<const uint8_t> private_data);
  /// @param qpn, qkey  count with kValid only
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
