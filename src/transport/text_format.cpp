#include "text_format.hpp"

#include "host/connect/byte_stream.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef", kName = "warpverbs-";
constexpr size_t kCrcBytes = 4;
constexpr size_t kMaxText = size_t{1} << 16;
constexpr char kSendAgain[] = "Send it again, whole and unchanged";

std::string Prefix(const TextFormat& format) {
  return std::string(kName) + std::string(format.kind) + "-" + std::to_string(format.version) + "-";
}

uint32_t Checksum(std::string_view prefix, std::span<const uint8_t> bytes) {
  std::vector<uint8_t> all(prefix.begin(), prefix.end());
  all.insert(all.end(), bytes.begin(), bytes.end());
  return host::Crc32(all);
}

}  // namespace

std::string TextFormat::Encode(std::span<const uint8_t> bytes) const {
  std::string text = Prefix(*this);
  host::ByteWriter all;
  all.Put(bytes);
  all.Put(kCrcBytes, Checksum(text, bytes));
  for (const uint8_t byte : all.bytes()) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<uint8_t> TextFormat::Decode(std::string_view text) const {
  const auto refuse = [this](const std::string& reason, const std::string& remedy) {
    throw host::Error("read", object, reason, remedy);
  };
  const std::string prefix = Prefix(*this);
  const std::string start = std::string(kName) + std::string(kind) + "-";
  if (!text.starts_with(start))
    refuse("it does not begin with '" + start + "'", "Pass the text from the peer unchanged");
  if (!text.starts_with(prefix)) {
    refuse("it is not of version " + std::to_string(version),
           "Use the same release of warpverbs on both sides");
  }
  const std::string_view digits = text.substr(prefix.size());
  if (text.size() > kMaxText || digits.size() % 2 != 0 ||
      digits.find_first_not_of(kDigits) != std::string_view::npos || digits.size() < 2 * kCrcBytes) {
    refuse("it is not whole bytes in lower-case hexadecimal", kSendAgain);
  }
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(kDigits.find(digits[i]) << 4 | kDigits.find(digits[i + 1])));
  }
  const uint64_t checksum = host::ByteReader(std::span(bytes).last(kCrcBytes)).Get(kCrcBytes);
  bytes.resize(bytes.size() - kCrcBytes);
  if (checksum != Checksum(prefix, bytes)) refuse("its checksum is wrong", kSendAgain);
  return bytes;
}

}  // namespace warpverbs::inline v0_2::transport
