#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "dma/device_memory.hpp"

namespace softhca {

/// Access rights of a key or a queue pair; the values are those of the verbs access flags.
enum Access : uint32_t {
  kAccessLocalRead = 0,
  kAccessLocalWrite = 1,
  kAccessRemoteWrite = 2,
  kAccessRemoteRead = 4,
  kAccessRemoteAtomic = 8,
};

/// A registered range.
struct Mkey {
  uint32_t pdn = 0;
  uint32_t access = 0;        ///< Access bits
  uint64_t iova = 0;          ///< address that work requests use for the first byte
  uint8_t* memory = nullptr;  ///< location of the first byte
  uint64_t bytes = 0;
  std::shared_ptr<const void> hold{};  ///< keeps that memory accessible; null: the program does
  bool revocable = false;              ///< a peer may end its access, as for a memory window of type 2
};

/// The translation and protection table of a device.
class MkeyTable {
 public:
  /// @param first  serial number of the first key
  explicit MkeyTable(uint32_t first = 0) : next_index_(first) {}

  /// @param variant  the key's low byte, if its owner chooses it
  /// @return  the key, for use as lkey and as rkey
  uint32_t Add(const Mkey& mkey, std::optional<uint8_t> variant = {});
  bool Remove(uint32_t key) { return mkeys_.erase(key) != 0; }
  /// @return  null if the key does not exist
  const Mkey* Find(uint32_t key) const;
  size_t size() const { return mkeys_.size(); }
  bool UsesPd(uint32_t pdn) const;

  /// Returns the memory behind [iova, iova + bytes).
  ///
  /// @return  an empty span with a null pointer if the protection domain has no such key, or if the range or
  ///          the access exceeds the key's
  Bytes Translate(uint32_t key, uint32_t pdn, uint64_t iova, uint64_t bytes, uint32_t access) const;

  /// Ends all peers' access by a key permanently, at the request of one of them.
  ///
  /// @return  false if the protection domain has no such key, or peers may not revoke it
  bool Revoke(uint32_t key, uint32_t pdn);

 private:
  std::unordered_map<uint32_t, Mkey> mkeys_;
  uint32_t next_index_;
};

}  // namespace softhca
