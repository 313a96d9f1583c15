#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace warpverbs::inline v0_2::host {

/// Length of the header before each message: magic (4 bytes), version (2), 0 (2), length (8).
constexpr size_t kFrameHeaderBytes = 16;
constexpr uint16_t kFrameVersion = 2;

/// Length of the greeting that a connecting side sends at once, and by which a listener knows a peer from a
/// stranger: the first bytes of a header, magic (4 bytes), version (2), 0 (2).
constexpr size_t kGreetingBytes = 8;

std::vector<uint8_t> Greeting();
std::vector<uint8_t> FrameHeader(uint64_t length);

/// Why a frame is refused, and the remedy.
struct FrameRefusal {
  std::string reason, remedy;
};

/// Returns why a greeting, or the first bytes of one, are refused, if they are.
std::optional<FrameRefusal> CheckGreeting(std::span<const uint8_t> bytes);

/// Assembles a frame from pieces.
class FrameReader {
 public:
  /// Returns how many bytes to read next: first of the header, then of the message. 0 if the frame is
  /// complete.
  size_t BytesWanted() const;

  /// Takes at most BytesWanted() bytes. Refuses a wrong header at its first wrong byte, because an unrelated
  /// program may send one byte and then wait for an answer.
  ///
  /// @return  the refusal, if any
  std::optional<FrameRefusal> Take(std::span<const uint8_t> bytes);

  /// Returns how much has arrived: "no byte", "3 bytes", "20 of 48 bytes".
  std::string Progress() const;

  std::vector<uint8_t>& message() { return message_; }

 private:
  std::optional<FrameRefusal> CheckHeader();

  std::vector<uint8_t> header_, message_;
  uint64_t length_ = 0;  // valid once the header is complete
};

}  // namespace warpverbs::inline v0_2::host
