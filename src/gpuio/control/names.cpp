#include "gpuio/control/names.hpp"

#include <bit>
#include <charconv>
#include <limits>
#include <span>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

std::string BytesToHex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

int HexValue(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

/// Takes parts off the front of a text. After a part that does not fit, nothing fits.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool Take(std::string_view part) {
    if (!ok_ || !text_.starts_with(part)) return false;
    text_.remove_prefix(part.size());
    return true;
  }
  void Need(std::string_view part) { ok_ = Take(part) && ok_; }

  /// Takes an integer in its only spelling: without plus, leading zeros, or minus zero.
  template <class T>
  T Number(int base = 10) {
    T value = 0;
    const char* const end = text_.data() + text_.size();
    const auto [behind, error] = std::from_chars(text_.data(), end, value, base);
    std::array<char, 72> printed{};
    const auto length = static_cast<size_t>(
        std::to_chars(printed.data(), printed.data() + printed.size(), value, base).ptr - printed.data());
    ok_ = ok_ && error == std::errc() && text_.starts_with(std::string_view(printed.data(), length)) &&
          static_cast<size_t>(behind - text_.data()) == length;
    if (!ok_) return 0;
    text_.remove_prefix(length);
    return value;
  }

  template <size_t kBytes>
  std::array<uint8_t, kBytes> Hex() {
    std::array<uint8_t, kBytes> bytes{};
    ok_ = ok_ && text_.size() >= 2 * kBytes;
    for (size_t i = 0; ok_ && i < kBytes; ++i) {
      const int high = HexValue(text_[2 * i]), low = HexValue(text_[2 * i + 1]);
      ok_ = high >= 0 && low >= 0;
      bytes[i] = static_cast<uint8_t>(high * 16 + low);
    }
    if (ok_) text_.remove_prefix(2 * kBytes);
    return bytes;
  }

  bool AtEnd() const { return ok_ && text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

std::string Binary(uint64_t value) {
  std::string text;
  do text.insert(text.begin(), (value & 1) != 0 ? '1' : '0');
  while ((value >>= 1) != 0);
  return text;
}

}  // namespace

std::string ToHex(const IovId& id) { return BytesToHex(id); }

std::string LinkName::ToString() const {
  std::string text = ToHex(id);
  if (gpu) return text + ".gdr.d" + std::to_string(*gpu);
  if (block_bytes != 0) text += ".b" + std::to_string(block_bytes);
  if (!ring) return text;
  text += (ring->for_read ? ".r" : ".w") + std::to_string(ring->io_depth);
  if (ring->priority != 0) text += ring->priority < 0 ? ".ph" : ".pl";
  if (ring->timeout_ms != 0) text += ".t" + std::to_string(ring->timeout_ms);
  if (ring->flags != 0) text += ".f" + Binary(ring->flags);
  return text;
}

std::optional<LinkName> LinkName::Parse(std::string_view text) {
  LinkName name;
  Parser parser(text);
  name.id = parser.Hex<16>();
  if (parser.Take(".gdr.d")) {
    name.gpu = parser.Number<int>();
  } else {
    if (parser.Take(".b")) name.block_bytes = parser.Number<uint64_t>();
    const bool reads = parser.Take(".r");
    if (reads || parser.Take(".w")) {
      RingConfig& ring = name.ring.emplace();
      ring.for_read = reads;
      ring.io_depth = parser.Number<int>();
      ring.priority = parser.Take(".ph") ? -1 : parser.Take(".pl") ? 1 : 0;
      if (parser.Take(".t")) ring.timeout_ms = parser.Number<int>();
      if (parser.Take(".f")) ring.flags = parser.Number<uint64_t>(2);
    }
  }
  const bool in_range = name.gpu.value_or(0) >= 0 && (!name.ring || name.ring->timeout_ms >= 0);
  // What has two spellings is accepted in the printed one only: a link of another name would never be
  // removed.
  if (!parser.AtEnd() || !in_range || name.ToString() != text) return std::nullopt;
  return name;
}

std::string GpuUri::ToString() const {
  return "gdr://v2/device/" + std::to_string(device) + "/allocation/" + std::to_string(allocation_bytes) +
         "/offset/" + std::to_string(offset) + "/size/" + std::to_string(bytes) +
         (ipc_handle ? "/ipc/" + BytesToHex(*ipc_handle) : "/dmabuf");
}

std::optional<GpuUri> GpuUri::Parse(std::string_view text) {
  GpuUri uri;
  Parser parser(text);
  parser.Need("gdr://v2/device/");
  uri.device = parser.Number<int>();
  parser.Need("/allocation/");
  uri.allocation_bytes = parser.Number<uint64_t>();
  parser.Need("/offset/");
  uri.offset = parser.Number<uint64_t>();
  parser.Need("/size/");
  uri.bytes = parser.Number<uint64_t>();
  if (parser.Take("/ipc/")) {
    uri.ipc_handle = parser.Hex<64>();
  } else {
    parser.Need("/dmabuf");
  }
  const bool in_range = uri.device >= 0 && uri.bytes != 0 && uri.offset <= uri.allocation_bytes &&
                        uri.bytes <= uri.allocation_bytes - uri.offset;
  if (!parser.AtEnd() || !in_range) return std::nullopt;
  return uri;
}

std::string ShmNameOf(std::string_view target) {
  constexpr std::string_view kFolder = "/dev/shm/";
  if (!target.starts_with(kFolder)) return {};
  const std::string_view name = target.substr(kFolder.size());
  const bool is_file =
      !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
  return is_file ? std::string(name) : std::string();
}

}  // namespace warpverbs::inline v0_2::gpuio
