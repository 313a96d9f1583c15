#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "connect/byte_stream.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

/// Fixed-size bytes that cross processes and machines: magic (4 bytes), version (2), length (2), fields, zero
/// padding, CRC-32 (4), all in network order. A change of any byte is detected.
///
///     ByteWriter fields = kFormat.Begin();
///     fields.Put(4, qpn);
///     kFormat.Seal(fields, bytes);       // and on the other side
///     ByteReader fields = kFormat.Open(bytes);
///     qpn = fields.Get(4);
struct SealedFormat {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;      ///< total length
  const char* object;  ///< name in errors: "the peer's endpoint information"
  const char* kind;    ///< format's name, if the magic differs: "endpoint information"
  const char* source;  ///< remedy then: "Pass the result of the peer's Info()"

  static constexpr char kSendAgain[] = "Send it again, whole and unchanged";

  /// Writes what precedes the fields.
  ByteWriter Begin() const;

  /// Completes the bytes that Begin() started.
  ///
  /// @param sealed  destination, `bytes` bytes long
  /// @pre     the fields leave 4 bytes for the checksum
  void Seal(const ByteWriter& fields, std::span<uint8_t> sealed) const;

  /// Checks the bytes and returns a reader of the fields, in the order of writing.
  ///
  /// @errors  Error: wrong length, magic, version or checksum
  ByteReader Open(std::span<const uint8_t> sealed) const;

  /// Makes the error for a field that is out of range.
  Error Refusal(const std::string& reason, const std::string& remedy) const;
};

}  // namespace warpverbs::inline v0_2::host
