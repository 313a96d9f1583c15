#include "perf/measure/validation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace warpverbs::perf {
namespace {

using Part = FlowMemory::Part;
using Bytes = std::vector<std::byte>;

/// Mixes the bits of a number.
uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
  return x ^ x >> 32;
}

uint64_t KeyOf(uint64_t round, uint32_t flow, uint32_t chunk) {
  return Mix(Mix(round + 1) ^ (uint64_t{flow} << 32 | chunk));
}

uint64_t WordOf(uint64_t key, uint64_t word) { return Mix(key + word * 0x9e3779b97f4a7c15); }

void Fill(uint64_t key, std::span<std::byte> message) {
  for (uint64_t at = 0; at < message.size(); at += sizeof(uint64_t)) {
    const uint64_t word = WordOf(key, at / sizeof(uint64_t));
    std::memcpy(message.data() + at, &word, std::min<uint64_t>(sizeof word, message.size() - at));
  }
}

/// A message as errors name it.
struct MessageId {
  uint32_t qpn, chunk;
};

/// The first wrong byte, and the number of wrong bytes.
class Mismatches {
 public:
  void Compare(const MessageId& id, std::span<const std::byte> expected, std::span<const std::byte> actual) {
    if (std::equal(expected.begin(), expected.end(), actual.begin(), actual.end())) return;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == actual[i]) continue;
      if (wrong_++ == 0) first_ = Sentence(id, i, expected[i], actual[i]);
    }
  }

  void Throw() const {
    if (wrong_ == 0) return;
    throw std::runtime_error(first_ + (wrong_ == 1 ? "." : "; " + std::to_string(wrong_) + " bytes in all."));
  }

 private:
  static std::string Sentence(const MessageId& id, size_t offset, std::byte expected, std::byte actual) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "Data arrived changed: QP 0x%04x, chunk %u, offset %zu, expected 0x%02x, actual 0x%02x",
                  id.qpn, id.chunk, offset, std::to_integer<unsigned>(expected),
                  std::to_integer<unsigned>(actual));
    return text;
  }

  uint64_t wrong_ = 0;
  std::string first_;
};

}  // namespace

uint8_t PatternByte(uint64_t round, uint32_t flow, uint32_t chunk, uint64_t offset) {
  uint8_t bytes[sizeof(uint64_t)];
  const uint64_t word = WordOf(KeyOf(round, flow, chunk), offset / sizeof(uint64_t));
  std::memcpy(bytes, &word, sizeof word);
  return bytes[offset % sizeof(uint64_t)];
}

void FillSources(const PerfSide& side, const Layout& layout, uint64_t round) {
  Bytes message(layout.bytes);
  for (uint32_t flow = 0; flow < side.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < layout.slots; ++chunk) {
      Fill(KeyOf(round, flow, chunk), message);
      side.memory().CopyIn(flow, Part::kSource, chunk * layout.stride, message);
    }
  }
}

void ClearTargets(const PerfSide& side, const Layout& layout) {
  const Bytes zeros(layout.bytes);
  for (uint32_t flow = 0; flow < side.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < layout.slots; ++chunk)
      side.memory().CopyIn(flow, Part::kTarget, chunk * layout.stride, zeros);
  }
}

void CheckTargets(const PerfSide& side, const Layout& layout, uint64_t round, uint32_t messages,
                  uint32_t first_slot) {
  Mismatches mismatches;
  Bytes expected(layout.bytes), actual(layout.bytes);
  for (uint32_t flow = 0; flow < side.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < std::min(messages, layout.slots); ++chunk) {
      const uint64_t slot = (uint64_t{first_slot} + chunk) % layout.slots;
      Fill(KeyOf(round, flow, chunk), expected);
      side.memory().CopyOut(flow, Part::kTarget, slot * layout.stride, actual);
      mismatches.Compare({side.endpoint(flow).qpn(), chunk}, expected, actual);
    }
  }
  mismatches.Throw();
}

void CheckCounts(const PerfSide& side, const Layout& layout, uint32_t messages) {
  Mismatches mismatches;
  for (uint32_t flow = 0; flow < side.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < layout.slots; ++chunk) {
      const uint64_t count = messages / layout.slots + (chunk < messages % layout.slots ? 1 : 0);
      uint64_t actual = 0;
      side.memory().CopyOut(flow, Part::kTarget, chunk * layout.stride,
                            std::as_writable_bytes(std::span(&actual, 1)));
      mismatches.Compare({side.endpoint(flow).qpn(), chunk}, std::as_bytes(std::span(&count, 1)),
                         std::as_bytes(std::span(&actual, 1)));
    }
  }
  mismatches.Throw();
}

}  // namespace warpverbs::perf
