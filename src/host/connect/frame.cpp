#include "connect/frame.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "connect/byte_stream.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr std::array<uint8_t, 4> kFrameMagic = {'W', 'V', 'E', 'x'};
constexpr size_t kVersionEnd = kFrameMagic.size() + 2;
constexpr size_t kMaxAtOnce = 65536;  // allocate for what has arrived, not for what was announced

std::string Quoted(std::span<const uint8_t> bytes) {
  std::string text = "'";
  for (const uint8_t byte : bytes) {
    char piece[5];
    const bool plain = byte >= ' ' && byte <= '~' && byte != '\'' && byte != '\\';
    std::snprintf(piece, sizeof piece, plain ? "%c" : "\\x%02x", byte);
    text += piece;
  }
  return text + "'";
}

}  // namespace

std::vector<uint8_t> Greeting() {
  ByteWriter greeting;
  greeting.Put(kFrameMagic);
  greeting.Put(2, kFrameVersion);
  greeting.Put(2, 0);
  return greeting.bytes();
}

std::vector<uint8_t> FrameHeader(uint64_t length) {
  ByteWriter header;
  header.Put(Greeting());
  header.Put(8, length);
  return header.bytes();
}

std::optional<FrameRefusal> CheckGreeting(std::span<const uint8_t> bytes) {
  const size_t known = std::min(bytes.size(), kFrameMagic.size());
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(known), kFrameMagic.begin())) {
    return FrameRefusal{"it does not speak this library's protocol: its message begins with " + Quoted(bytes),
                        "Check host and port on both sides, and which other programs may connect"};
  }
  if (bytes.size() < kVersionEnd) return std::nullopt;
  ByteReader greeting(bytes);
  greeting.GetBytes(kFrameMagic.size());
  const uint64_t version = greeting.Get(2);
  if (version == kFrameVersion) return std::nullopt;
  return FrameRefusal{
      "it speaks version " + std::to_string(version) + ", not " + std::to_string(kFrameVersion),
      "Use the same release of warpverbs on both sides"};
}

size_t FrameReader::BytesWanted() const {
  if (header_.size() < kFrameHeaderBytes) return kFrameHeaderBytes - header_.size();
  return static_cast<size_t>(std::min<uint64_t>(length_ - message_.size(), kMaxAtOnce));
}

std::optional<FrameRefusal> FrameReader::Take(std::span<const uint8_t> bytes) {
  const bool in_header = header_.size() < kFrameHeaderBytes;
  std::vector<uint8_t>& target = in_header ? header_ : message_;
  target.insert(target.end(), bytes.begin(), bytes.end());
  return in_header ? CheckHeader() : std::nullopt;
}

std::optional<FrameRefusal> FrameReader::CheckHeader() {
  if (auto refusal = CheckGreeting(header_)) return refusal;
  if (header_.size() < kFrameHeaderBytes) return std::nullopt;
  ByteReader header(header_);
  header.GetBytes(kGreetingBytes);
  length_ = header.Get(8);
  if (length_ <= kMaxSwapBytes) return std::nullopt;
  return FrameRefusal{"it announces a message of " + std::to_string(length_) +
                          " bytes, more than the limit of " + std::to_string(kMaxSwapBytes),
                      "Swap smaller messages"};
}

std::string FrameReader::Progress() const {
  if (header_.size() == kFrameHeaderBytes)
    return std::to_string(message_.size()) + " of " + std::to_string(length_) + " bytes";
  return header_.empty() ? "no byte" : std::to_string(header_.size()) + " bytes";
}

}  // namespace warpverbs::inline v0_2::host
