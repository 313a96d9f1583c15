#pragma once

#include <endian.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mlx5/prm.hpp"

namespace verbs {

/// A command or its output. Fields are named as in the PRM's tables.
class Mailbox {
 public:
  explicit Mailbox(const std::string& name)
      : name_(name), words_(prm::FieldAt(name + ".@sizeof").width / 32) {}
  Mailbox(const std::string& name, uint64_t opcode) : Mailbox(name) { Set("opcode", opcode); }

  Mailbox& Set(const std::string& field, uint64_t value) {
    return Put(prm::FieldAt(name_ + '.' + field), value);
  }
  /// Sets a field of an embedded struct.
  Mailbox& Set(const std::string& context, const std::string& field, uint64_t value) {
    return Put(Inside(context, field), value);
  }
  Mailbox& SetBytes(const std::string& context, const std::string& field, const void* bytes, size_t count) {
    std::memcpy(words_.data() + Inside(context, field).bit / 32, bytes, count);
    return *this;
  }
  uint64_t Get(const std::string& field) const { return Take(prm::FieldAt(name_ + '.' + field)); }
  uint64_t Get(const std::string& context, const std::string& field) const {
    return Take(Inside(context, field));
  }

  /// Adds bytes after the last field: a list of as many elements as the command says.
  Mailbox& Append(const void* bytes, size_t count) {
    const auto* words = static_cast<const uint32_t*>(bytes);
    words_.insert(words_.end(), words, words + count / sizeof *words);
    return *this;
  }

  void* data() { return words_.data(); }
  size_t size() const { return words_.size() * sizeof words_[0]; }

 private:
  /// `field` is "struct.field". An address path is part of the queue pair context.
  prm::Place Inside(const std::string& context, const std::string& field) const {
    prm::Place place = prm::FieldAt(field);
    place.bit += prm::FieldAt(name_ + '.' + context).bit;
    if (field.starts_with("ads.")) place.bit += prm::FieldAt("qpc.primary_address_path").bit;
    return place;
  }
  Mailbox& Put(prm::Place place, uint64_t value) {
    for (uint32_t i = 0; i < place.width; ++i) {
      const uint32_t bit = place.bit + place.width - 1 - i;
      const uint32_t mask = 1u << (31 - bit % 32);
      const uint32_t word = be32toh(words_[bit / 32]);
      words_[bit / 32] = htobe32((value >> i & 1) != 0 ? word | mask : word & ~mask);
    }
    return *this;
  }
  uint64_t Take(prm::Place place) const {
    uint64_t value = 0;
    for (uint32_t bit = place.bit; bit < place.bit + place.width; ++bit) {
      value = value << 1 | (be32toh(words_[bit / 32]) >> (31 - bit % 32) & 1);
    }
    return value;
  }

  std::string name_;
  std::vector<uint32_t> words_;
};

}  // namespace verbs
