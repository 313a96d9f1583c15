#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "core/config.hpp"
#include "wire/management.hpp"

/// Communication management messages, with which two sides set up a connection. LAP and APR have only the
/// fields that a refusal needs.
///
/// @source  IBTA 1.4, 12.6 and 12.11
namespace softhca::cm {

/// Reason for a refused connection.
///
/// @source  IBTA 1.4, 12.6.7.2
enum class RejectReason : uint16_t {
  kTimeout = 4,
  kInvalidCommunicationId = 6,
  kInvalidServiceId = 8,
  kInvalidServiceType = 9,
  kConsumer = 28,
};

/// Message that a REJ or an MRA answers.
enum class Answered : uint8_t { kReq = 0, kRep = 1, kOther = 2, kLap = 2 };

/// Requests a connection. Only the IBTA's primary path is supported.
struct Req {
  static constexpr uint16_t kAttribute = 0x10;
  uint32_t local_id = 0;
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qpn = 0;
  uint8_t responder_resources = 0;  ///< reads and atomics that the sender can serve at once
  uint8_t initiator_depth = 0;      ///< most reads and atomics that it will have in flight
  uint8_t remote_response_timeout = 0;
  uint8_t service_type = 0;  ///< 0: reliable connection
  bool flow_control = false;
  uint32_t psn = 0;
  uint8_t local_response_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t pkey = 0xffff;
  uint8_t mtu = 0;  ///< mlx5::Mtu value
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  Gid local_gid{}, remote_gid{};
  uint32_t flow_label = 0;
  uint8_t rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  bool subnet_local = false;
  uint8_t ack_timeout = 0;
  std::array<uint8_t, 92> private_data{};
  friend bool operator==(const Req&, const Req&) = default;
};

/// Announces that the answer to a message will take longer.
struct Mra {
  static constexpr uint16_t kAttribute = 0x11;
  uint32_t local_id = 0, remote_id = 0;
  Answered answered = Answered::kReq;
  uint8_t service_timeout = 0;
  std::array<uint8_t, 222> private_data{};
  friend bool operator==(const Mra&, const Mra&) = default;
};

struct Rej {
  static constexpr uint16_t kAttribute = 0x12;
  uint32_t local_id = 0, remote_id = 0;
  Answered answered = Answered::kReq;
  uint8_t info_bytes = 0;
  uint16_t reason = 0;  ///< a RejectReason, or another IBTA code
  std::array<uint8_t, 72> info{};
  std::array<uint8_t, 148> private_data{};
  friend bool operator==(const Rej&, const Rej&) = default;
};

/// Accepts a connection.
struct Rep {
  static constexpr uint16_t kAttribute = 0x13;
  uint32_t local_id = 0, remote_id = 0;
  uint32_t qkey = 0;
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover = 1;  ///< 1: not supported
  bool flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t ca_guid = 0;
  std::array<uint8_t, 196> private_data{};
  friend bool operator==(const Rep&, const Rep&) = default;
};

/// Confirms that the sender is ready to use the connection.
struct Rtu {
  static constexpr uint16_t kAttribute = 0x14;
  uint32_t local_id = 0, remote_id = 0;
  std::array<uint8_t, 224> private_data{};
  friend bool operator==(const Rtu&, const Rtu&) = default;
};

struct Dreq {
  static constexpr uint16_t kAttribute = 0x15;
  uint32_t local_id = 0, remote_id = 0;
  uint32_t remote_qpn = 0;
  std::array<uint8_t, 220> private_data{};
  friend bool operator==(const Dreq&, const Dreq&) = default;
};

struct Drep {
  static constexpr uint16_t kAttribute = 0x16;
  uint32_t local_id = 0, remote_id = 0;
  std::array<uint8_t, 224> private_data{};
  friend bool operator==(const Drep&, const Drep&) = default;
};

/// Requests the queue pair number and Q_Key of a datagram service.
struct SidrReq {
  static constexpr uint16_t kAttribute = 0x17;
  uint32_t request_id = 0;
  uint16_t pkey = 0xffff;
  uint64_t service_id = 0;
  std::array<uint8_t, 216> private_data{};
  friend bool operator==(const SidrReq&, const SidrReq&) = default;
};

/// @source  IBTA 1.4, 12.11.2.1
enum class SidrStatus : uint8_t { kValid = 0, kNotSupported = 1, kRejected = 2 };

struct SidrRep {
  static constexpr uint16_t kAttribute = 0x18;
  uint32_t request_id = 0;
  SidrStatus status = SidrStatus::kValid;
  uint8_t info_bytes = 0;
  uint32_t qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  std::array<uint8_t, 72> info{};
  std::array<uint8_t, 136> private_data{};
  friend bool operator==(const SidrRep&, const SidrRep&) = default;
};

/// Offers an alternate path.
struct Lap {
  static constexpr uint16_t kAttribute = 0x19;
  uint32_t local_id = 0, remote_id = 0;
  friend bool operator==(const Lap&, const Lap&) = default;
};

/// Answers a LAP.
struct Apr {
  static constexpr uint16_t kAttribute = 0x1a;
  static constexpr uint8_t kNotSupported = 2;
  uint32_t local_id = 0, remote_id = 0;
  uint8_t status = kNotSupported;
  friend bool operator==(const Apr&, const Apr&) = default;
};

struct Message {
  uint64_t transaction = 0;
  std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr> body{};
  friend bool operator==(const Message&, const Message&) = default;
};

Mad Encode(const Message& message);

/// @return  nothing if the MAD is of another class, version, method or attribute
std::optional<Message> Decode(const Mad& mad);

/// Converts a time from CM's and the transport's encoding: 4.096 us * 2^code.
constexpr uint64_t TimeoutNs(uint8_t code) { return uint64_t{4096} << (code & 0x1f); }

}  // namespace softhca::cm
