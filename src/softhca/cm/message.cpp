#include "cm/message.hpp"

#include <algorithm>
#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

namespace softhca::cm {
namespace {

/// Position of a field after the MAD header, as the IBTA's tables count it.
struct At {
  size_t byte;
  size_t bit = 0;  ///< bit 0 is the byte's most significant
};

constexpr size_t kHeaderBytes = 24;

/// Writes fields to a MAD. Writer and Reader have the same calls, so each message's layout is written once.
class Writer {
 public:
  explicit Writer(Mad& mad) : mad_(mad) {}

  template <class Value>
  void Bits(At at, size_t bits, const Value& value) {
    const auto number = static_cast<uint64_t>(value);
    for (size_t i = 0; i < bits; ++i) {
      const size_t bit = (kHeaderBytes + at.byte) * 8 + at.bit + i;
      const uint64_t one = number >> (bits - 1 - i) & 1;
      mad_[bit / 8] = static_cast<uint8_t>(mad_[bit / 8] | one << (7 - bit % 8));
    }
  }
  template <size_t kBytes>
  void Bytes(size_t byte, const std::array<uint8_t, kBytes>& value) {
    std::copy(value.begin(), value.end(), mad_.begin() + kHeaderBytes + byte);
  }

 private:
  Mad& mad_;
};

/// Reads fields from a MAD.
class Reader {
 public:
  explicit Reader(const Mad& mad) : mad_(mad) {}

  template <class Value>
  void Bits(At at, size_t bits, Value& value) {
    uint64_t number = 0;
    for (size_t i = 0; i < bits; ++i) {
      const size_t bit = (kHeaderBytes + at.byte) * 8 + at.bit + i;
      number = number << 1 | (mad_[bit / 8] >> (7 - bit % 8) & 1);
    }
    value = static_cast<Value>(number);
  }
  template <size_t kBytes>
  void Bytes(size_t byte, std::array<uint8_t, kBytes>& value) {
    std::copy_n(mad_.begin() + kHeaderBytes + byte, kBytes, value.begin());
  }

 private:
  const Mad& mad_;
};

template <class Body, class Plain>
concept Is = std::same_as<std::remove_const_t<Body>, Plain>;

// IBTA 1.4, tables 99 to 118: the layout of each message.

template <class Io>
void Layout(Io& io, Is<Req> auto& m) {
  io.Bits({0}, 32, m.local_id);
  io.Bits({8}, 64, m.service_id);
  io.Bits({16}, 64, m.ca_guid);
  io.Bits({32}, 24, m.qpn);
  io.Bits({35}, 8, m.responder_resources);
  io.Bits({39}, 8, m.initiator_depth);
  io.Bits({43, 0}, 5, m.remote_response_timeout);
  io.Bits({43, 5}, 2, m.service_type);
  io.Bits({43, 7}, 1, m.flow_control);
  io.Bits({44}, 24, m.psn);
  io.Bits({47, 0}, 5, m.local_response_timeout);
  io.Bits({47, 5}, 3, m.retry_count);
  io.Bits({48}, 16, m.pkey);
  io.Bits({50, 0}, 4, m.mtu);
  io.Bits({50, 5}, 3, m.rnr_retry_count);
  io.Bits({51, 0}, 4, m.max_cm_retries);
  io.Bits({51, 4}, 1, m.srq);
  io.Bytes(56, m.local_gid);
  io.Bytes(72, m.remote_gid);
  io.Bits({88}, 20, m.flow_label);
  io.Bits({91, 2}, 6, m.rate);
  io.Bits({92}, 8, m.traffic_class);
  io.Bits({93}, 8, m.hop_limit);
  io.Bits({94, 0}, 4, m.service_level);
  io.Bits({94, 4}, 1, m.subnet_local);
  io.Bits({95, 0}, 5, m.ack_timeout);
  io.Bytes(140, m.private_data);
}

/// Lays out the ids, with which every message except REQ and SIDR begins.
template <class Io>
void LayoutIds(Io& io, auto& m) {
  io.Bits({0}, 32, m.local_id);
  io.Bits({4}, 32, m.remote_id);
}

template <class Io>
void Layout(Io& io, Is<Mra> auto& m) {
  LayoutIds(io, m);
  io.Bits({8, 0}, 2, m.answered);
  io.Bits({9, 0}, 5, m.service_timeout);
  io.Bytes(10, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<Rej> auto& m) {
  LayoutIds(io, m);
  io.Bits({8, 0}, 2, m.answered);
  io.Bits({9, 0}, 7, m.info_bytes);
  io.Bits({10}, 16, m.reason);
  io.Bytes(12, m.info);
  io.Bytes(84, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<Rep> auto& m) {
  LayoutIds(io, m);
  io.Bits({8}, 32, m.qkey);
  io.Bits({12}, 24, m.qpn);
  io.Bits({20}, 24, m.psn);
  io.Bits({24}, 8, m.responder_resources);
  io.Bits({25}, 8, m.initiator_depth);
  io.Bits({26, 0}, 5, m.target_ack_delay);
  io.Bits({26, 5}, 2, m.failover);
  io.Bits({26, 7}, 1, m.flow_control);
  io.Bits({27, 0}, 3, m.rnr_retry_count);
  io.Bits({27, 3}, 1, m.srq);
  io.Bits({28}, 64, m.ca_guid);
  io.Bytes(36, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<Rtu> auto& m) {
  LayoutIds(io, m);
  io.Bytes(8, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<Dreq> auto& m) {
  LayoutIds(io, m);
  io.Bits({8}, 24, m.remote_qpn);
  io.Bytes(12, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<Drep> auto& m) {
  LayoutIds(io, m);
  io.Bytes(8, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<SidrReq> auto& m) {
  io.Bits({0}, 32, m.request_id);
  io.Bits({4}, 16, m.pkey);
  io.Bits({8}, 64, m.service_id);
  io.Bytes(16, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<SidrRep> auto& m) {
  io.Bits({0}, 32, m.request_id);
  io.Bits({4}, 8, m.status);
  io.Bits({5}, 8, m.info_bytes);
  io.Bits({8}, 24, m.qpn);
  io.Bits({12}, 64, m.service_id);
  io.Bits({20}, 32, m.qkey);
  io.Bytes(24, m.info);
  io.Bytes(96, m.private_data);
}

template <class Io>
void Layout(Io& io, Is<Lap> auto& m) {
  LayoutIds(io, m);
}

template <class Io>
void Layout(Io& io, Is<Apr> auto& m) {
  LayoutIds(io, m);
  io.Bits({9}, 8, m.status);
}

constexpr uint8_t kBaseVersion = 1, kClass = 7, kClassVersion = 2, kMethodSend = 3;

uint64_t Load(const Mad& mad, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | mad[at + i];
  return value;
}

/// Reads the body that has the attribute.
///
/// @return  false if the attribute is unknown
template <class Bodies, size_t... kIndex>
bool ReadBody(const Mad& mad, uint64_t attribute, Bodies& body, std::index_sequence<kIndex...> /*unused*/) {
  const auto read = [&]<class Body>(Body candidate) {
    if (attribute != Body::kAttribute) return false;
    Reader reader(mad);
    Layout(reader, candidate);
    body = candidate;
    return true;
  };
  return (read(std::variant_alternative_t<kIndex, Bodies>{}) || ...);
}

}  // namespace

Mad Encode(const Message& message) {
  Mad mad{kBaseVersion, kClass, kClassVersion, kMethodSend};
  for (size_t i = 0; i < 8; ++i) mad[8 + i] = static_cast<uint8_t>(message.transaction >> (56 - 8 * i));
  std::visit(
      [&]<class Body>(const Body& body) {
        mad[17] = Body::kAttribute;
        Writer writer(mad);
        Layout(writer, body);
      },
      message.body);
  return mad;
}

std::optional<Message> Decode(const Mad& mad) {
  const std::array header{kBaseVersion, kClass, kClassVersion, kMethodSend};
  if (!std::equal(header.begin(), header.end(), mad.begin())) return {};
  Message message{.transaction = Load(mad, 8, 8)};
  using Bodies = decltype(message.body);
  const std::make_index_sequence<std::variant_size_v<Bodies>> all;
  if (!ReadBody(mad, Load(mad, 16, 2), message.body, all)) return {};
  return message;
}

}  // namespace softhca::cm
