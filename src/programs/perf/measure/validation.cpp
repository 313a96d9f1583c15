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

/// Spreads the bits of a number.
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

/// A message, as errors name it.
struct Place {
  uint32_t qpn, chunk;
};

/// The first wrong byte, and how many there are.
class Findings {
 public:
  void Compare(const Place& place, std::span<const std::byte> expected, std::span<const std::byte> actual) {
    if (std::equal(expected.begin(), expected.end(), actual.begin(), actual.end())) return;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == actual[i]) continue;
      if (wrong_++ == 0) first_ = Sentence(place, i, expected[i], actual[i]);
    }
  }

  void Throw() const {
    if (wrong_ == 0) return;
    throw std::runtime_error(first_ + (wrong_ == 1 ? "." : "; " + std::to_string(wrong_) + " bytes in all."));
  }

 private:
  static std::string Sentence(const Place& place, size_t offset, std::byte expected, std::byte actual) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "Data arrived changed: QP 0x%04x, chunk %u, offset %zu, expected 0x%02x, actual 0x%02x",
                  place.qpn, place.chunk, offset, std::to_integer<unsigned>(expected),
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

void FillSources(const Party& party, const Layout& layout, uint64_t round) {
  Bytes message(layout.bytes);
  for (uint32_t flow = 0; flow < party.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < layout.slots; ++chunk) {
      Fill(KeyOf(round, flow, chunk), message);
      party.memory().CopyIn(flow, Part::kSource, chunk * layout.stride, message);
    }
  }
}

void ClearTargets(const Party& party, const Layout& layout) {
  const Bytes zeros(layout.bytes);
  for (uint32_t flow = 0; flow < party.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < layout.slots; ++chunk)
      party.memory().CopyIn(flow, Part::kTarget, chunk * layout.stride, zeros);
  }
}

void CheckTargets(const Party& party, const Layout& layout, uint64_t round, uint32_t messages,
                  uint32_t first_place) {
  Findings findings;
  Bytes expected(layout.bytes), actual(layout.bytes);
  for (uint32_t flow = 0; flow < party.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < std::min(messages, layout.slots); ++chunk) {
      const uint64_t place = (uint64_t{first_place} + chunk) % layout.slots;
      Fill(KeyOf(round, flow, chunk), expected);
      party.memory().CopyOut(flow, Part::kTarget, place * layout.stride, actual);
      findings.Compare({party.endpoint(flow).qpn(), chunk}, expected, actual);
    }
  }
  findings.Throw();
}

void CheckCounts(const Party& party, const Layout& layout, uint32_t messages) {
  Findings findings;
  for (uint32_t flow = 0; flow < party.flows(); ++flow) {
    for (uint32_t chunk = 0; chunk < layout.slots; ++chunk) {
      const uint64_t count = messages / layout.slots + (chunk < messages % layout.slots ? 1 : 0);
      uint64_t actual = 0;
      party.memory().CopyOut(flow, Part::kTarget, chunk * layout.stride,
                             std::as_writable_bytes(std::span(&actual, 1)));
      findings.Compare({party.endpoint(flow).qpn(), chunk}, std::as_bytes(std::span(&count, 1)),
                       std::as_bytes(std::span(&actual, 1)));
    }
  }
  findings.Throw();
}

}  // namespace warpverbs::perf
