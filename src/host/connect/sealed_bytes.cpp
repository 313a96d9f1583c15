#include "connect/sealed_bytes.hpp"

#include <algorithm>

#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr size_t kMagicBytes = 4, kVersionBytes = 2, kLengthBytes = 2, kCrcBytes = 4;

}  // namespace

ByteWriter SealedFormat::Begin() const {
  ByteWriter fields;
  fields.Put(kMagicBytes, magic);
  fields.Put(kVersionBytes, version);
  fields.Put(kLengthBytes, bytes);
  return fields;
}

void SealedFormat::Seal(const ByteWriter& fields, std::span<uint8_t> sealed) const {
  const auto end = std::copy(fields.bytes().begin(), fields.bytes().end(), sealed.begin());
  std::fill(end, sealed.end(), 0);
  ByteWriter crc;
  crc.Put(kCrcBytes, Crc32(sealed.first(bytes - kCrcBytes)));
  std::copy(crc.bytes().begin(), crc.bytes().end(), sealed.last(kCrcBytes).begin());
}

ByteReader SealedFormat::Open(std::span<const uint8_t> sealed) const {
  ByteReader reader(sealed);
  if (reader.Get(kMagicBytes) != magic) throw Refusal(std::string("it does not begin like ") + kind, source);
  // The version goes before the length: another version may have another length.
  if (const uint64_t got = reader.Get(kVersionBytes); reader.ok() && got != version) {
    throw Refusal("it has version " + std::to_string(got) + ", not " + std::to_string(version),
                  "Use the same release of warpverbs on both sides");
  }
  if (sealed.size() != bytes || reader.Get(kLengthBytes) != bytes) {
    throw Refusal("it has " + std::to_string(sealed.size()) + " bytes, not " + std::to_string(bytes),
                  kSendAgain);
  }
  if (ByteReader(sealed.last(kCrcBytes)).Get(kCrcBytes) != Crc32(sealed.first(bytes - kCrcBytes)))
    throw Refusal("its checksum is wrong", kSendAgain);
  return reader;
}

Error SealedFormat::Refusal(const std::string& reason, const std::string& remedy) const {
  return {"read", object, reason, remedy};
}

}  // namespace warpverbs::inline v0_2::host
