#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "connect/byte_stream.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

/// How a description of fixed size crosses processes and machines: magic (4 bytes), version (2), length (2),
/// fields, zeros up to the end, CRC-32 (4); numbers in network order. It is refused whichever byte changed.
///
///     ByteWriter fields = kFormat.Begin();
///     fields.Put(4, qpn);
///     kFormat.Seal(fields, bytes);       // and on the other side
///     ByteReader fields = kFormat.Open(bytes);
///     qpn = fields.Get(4);
struct SealedFormat {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;      ///< of the whole
  const char* object;  ///< what errors call it: "the peer's endpoint information"
  const char* kind;    ///< "it does not begin as endpoint information does"
  const char* source;  ///< what to do then: "Pass what the peer's Info() made"

  static constexpr char kSendAgain[] = "Send it again, whole and unchanged";

  /// What stands before the fields.
  ByteWriter Begin() const;

  /// Completes what Begin() began.
  ///
  /// @param sealed  of `bytes` bytes
  /// @pre     the fields leave 4 bytes of it for the checksum
  void Seal(const ByteWriter& fields, std::span<uint8_t> sealed) const;

  /// The fields, in the order in which they were put.
  ///
  /// @errors  Error: too short or too long, another thing, of another version, or damaged
  ByteReader Open(std::span<const uint8_t> sealed) const;

  /// That it cannot be read, for a reason of the fields' own.
  Error Refusal(const std::string& reason, const std::string& remedy) const;
};

}  // namespace warpverbs::host
