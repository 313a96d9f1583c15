#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace warpverbs::host {

/// What stands before each message on a connection: magic (4 bytes), version (2), 0 (2), length (8).
constexpr size_t kFrameHeaderBytes = 16;
constexpr uint16_t kFrameVersion = 1;

std::vector<uint8_t> FrameHeader(uint64_t length);

/// Why a frame is refused, and what the user can do.
struct FrameRefusal {
  std::string reason, remedy;
};

/// A frame that arrives in pieces.
class FrameReader {
 public:
  /// How many bytes to take next: of the header first, then of the message. 0 once it is whole.
  size_t Wants() const;

  /// Takes at most Wants() bytes. What is wrong is said as soon as it can be known, which with a stranger
  /// that waits for an answer may be the first byte.
  ///
  /// @return  why it is refused, if it is
  std::optional<FrameRefusal> Take(std::span<const uint8_t> bytes);

  /// "no byte", "3 bytes", "20 of 48 bytes".
  std::string Came() const;

  std::vector<uint8_t>& message() { return message_; }

 private:
  std::optional<FrameRefusal> CheckHeader();

  std::vector<uint8_t> header_, message_;
  uint64_t length_ = 0;  // once the header is whole
};

}  // namespace warpverbs::host
