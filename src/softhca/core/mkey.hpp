#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "dma/device_memory.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

/// Access rights of a key or a queue pair; the values are those of the verbs access flags.
enum Access : uint32_t {
  kAccessLocalRead = 0,
  kAccessLocalWrite = 1,
  kAccessRemoteWrite = 2,
  kAccessRemoteRead = 4,
  kAccessRemoteAtomic = 8,
};

/// Memory that a memory window opens, in terms of the region behind it.
struct WindowTarget {
  uint32_t key = 0;  ///< the region's key
  uint64_t address = 0;
};

/// A registered range, or a memory window: a key that work requests bind to a part of a registered range.
struct Mkey {
  uint32_t pdn = 0;
  uint32_t access = 0;        ///< Access bits
  uint64_t iova = 0;          ///< address that work requests use for the first byte
  uint8_t* memory = nullptr;  ///< location of the first byte; a window has a target instead
  uint64_t bytes = 0;
  std::shared_ptr<const void> hold{};    ///< keeps that memory accessible; null: the program does
  bool revocable = false;                ///< a peer may free it by a send with invalidate
  bool free = false;                     ///< allows no access
  uint32_t qpn = mlx5::kAnyQpn;          ///< the only queue pair that may use it
  std::optional<WindowTarget> window{};  ///< none: not a window
};

/// What a work request does to a memory window: binds it, or frees it.
struct WindowChange {
  uint32_t key = 0;               ///< the window's key; its low byte matters only if `only_own`
  uint8_t variant = 0;            ///< the new low byte
  bool only_free = false;         ///< fails unless the window is free
  bool only_own = false;          ///< fails unless the window is bound by this queue pair, with this very key
  std::optional<uint32_t> qpn{};  ///< the only queue pair that may use it afterwards; none: as before
  bool free = false;              ///< frees the window; the rest has no meaning
  uint32_t access = 0;
  uint64_t iova = 0;
  uint64_t bytes = 0;
  WindowTarget target{};
};

/// The translation and protection table of a device.
class MkeyTable {
 public:
  /// Allows local access in every protection domain: reads return zeros, written bytes vanish.
  static constexpr uint32_t kNullKey = 0x200;

  /// @param first  serial number of the first key
  explicit MkeyTable(uint32_t first = 0) : next_serial_(first) {}

  /// @param variant  the key's low byte, if its owner chooses it
  /// @return  the key, for use as lkey and as rkey
  uint32_t Add(const Mkey& mkey, std::optional<uint8_t> variant = {});
  bool Remove(uint32_t key);
  /// Removes a window. Its key's low byte has no meaning: work requests change it.
  bool RemoveWindow(uint32_t key);
  /// Gives a key new contents.
  ///
  /// @pre  the key exists
  void Replace(uint32_t key, const Mkey& mkey);
  /// @return  null if the key does not exist
  const Mkey* Find(uint32_t key) const;
  size_t size() const { return entries_.size(); }
  bool UsesPd(uint32_t pdn) const;

  /// Returns the memory behind [iova, iova + bytes).
  ///
  /// @param qpn  the queue pair that a peer's request came to; 0: none
  /// @return  an empty span with a null pointer if the protection domain or the queue pair has no such key,
  /// or
  ///          if the range or the access exceeds the key's
  Bytes Translate(uint32_t key, uint32_t pdn, uint64_t iova, uint64_t bytes, uint32_t access,
                  uint32_t qpn = 0) const;

  /// Binds or frees a memory window for a queue pair. A window can be bound to a region of its own protection
  /// domain, and permits remote writes and atomics only if the region permits local writes.
  ///
  /// @return  false if the rules of `change` or of memory windows forbid it; the window then stays as it was
  /// @source  IBTA 1.4, 10.6.7.2; rdma-core v44, providers/mlx5/qp.c, set_umr_control_seg()
  bool Change(const WindowChange& change, uint32_t pdn, uint32_t qpn);

  /// Frees a key at the request of a peer of queue pair `qpn`.
  ///
  /// @return  false if that queue pair has no such key, or peers may not free it
  bool Revoke(uint32_t key, uint32_t pdn, uint32_t qpn);

 private:
  struct Entry {
    uint8_t variant;  ///< the key's low byte
    Mkey mkey;
  };

  bool MayBind(const WindowChange& change, uint32_t pdn) const;

  std::unordered_map<uint32_t, Entry> entries_;  ///< entry by the upper 24 bits of its key
  uint32_t next_serial_;
};

}  // namespace softhca
