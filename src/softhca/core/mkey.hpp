#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dma/device_memory.hpp"
#include "dma/pieces.hpp"
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
  kAccessAll = 15,
};

/// An address in a registered range.
struct RegionAddress {
  uint32_t key = 0;  ///< the region's key
  uint64_t address = 0;
};

/// What an indirect key is made of, in terms of other keys: pieces, one after the other, and all of them
/// again for each repetition.
struct Layout {
  struct Piece {
    uint32_t key = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t stride = 0;  ///< from one repetition to the next
  };
  std::vector<Piece> pieces{};
  uint64_t repetitions = 1;
};

/// A registered range; a memory window: a key that work requests bind to a part of a registered range; or an
/// indirect key: one that is made of parts of others.
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
  std::optional<RegionAddress> window{};  ///< none: not a window
  std::optional<Layout> layout{};         ///< none: not indirect
  uint32_t layout_room = 0;               ///< size in 16 bytes of the layouts that work requests may give it
  uint32_t card_memory = 0;               ///< number of the card's memory that the range is in; 0: none
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
  RegionAddress target{};
};

/// What a work request changes of an indirect key; afterwards the key is in use.
struct LayoutChange {
  uint32_t key = 0;     ///< its low byte does not matter
  uint8_t variant = 0;  ///< the new low byte
  uint32_t changed_access = 0;
  uint32_t access = 0;  ///< new values of the changed Access bits
  std::optional<uint64_t> bytes{};
  std::optional<Layout> layout{};
  uint32_t layout_size = 0;  ///< in 16 bytes
};

/// A range of a key's addresses, as a work request or a peer names it.
struct KeyRange {
  uint32_t key = 0;
  uint32_t pdn = 0;  ///< protection domain of the queue pair
  uint64_t iova = 0;
  uint64_t bytes = 0;
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
  bool UsesCardMemory(uint32_t number) const;
  /// Returns whether a memory window is bound to a region.
  bool HasWindow(uint32_t region_key) const;

  /// Appends the memory behind a range to a list.
  ///
  /// Keys that a window or an indirect key is made of must be of the same protection domain. They permit
  /// reads, and changes if they permit local writes, at up to kMaxIndirection steps.
  ///
  /// @param qpn  the queue pair that a peer's request came to; 0: none
  /// @return  false if the protection domain or the queue pair has no such key, or if the range or the access
  /// exceeds
  ///          the key's; some of the memory may be in the list
  bool Translate(const KeyRange& range, uint32_t access, Pieces& to, uint32_t qpn = 0) const {
    return Resolve(range, access, to, qpn, 0);
  }

  /// Binds or frees a memory window for a queue pair, or frees an indirect key. A window can be bound to a
  /// region of its own protection domain, and permits remote writes and atomics only if the region permits
  /// local writes.
  ///
  /// @return  false if the rules of `change` or of memory windows forbid it; the window then stays as it was
  /// @source  IBTA 1.4, 10.6.7.2; rdma-core v44, providers/mlx5/qp.c, set_umr_control_seg()
  bool Change(const WindowChange& change, uint32_t pdn, uint32_t qpn);

  /// Gives an indirect key a new layout, length or access.
  ///
  /// @return  false if the key is not indirect or of another protection domain, or has no room for the layout
  bool ChangeLayout(const LayoutChange& change, uint32_t pdn);

  /// Frees a key at the request of a peer of queue pair `qpn`.
  ///
  /// @return  false if that queue pair has no such key, or peers may not free it
  bool Revoke(uint32_t key, uint32_t pdn, uint32_t qpn);

 private:
  struct Entry {
    uint8_t variant;  ///< the key's low byte
    Mkey mkey;
  };

  static constexpr int kMaxIndirection = 4;

  bool Resolve(const KeyRange& range, uint32_t access, Pieces& to, uint32_t qpn, int depth) const;
  bool ResolveLayout(const Layout& layout, const KeyRange& range, uint32_t access, Pieces& to, uint32_t qpn,
                     int depth) const;
  bool MayBind(const WindowChange& change, uint32_t pdn) const;

  std::unordered_map<uint32_t, Entry> entries_;  ///< entry by the upper 24 bits of its key
  uint32_t next_serial_;
};

}  // namespace softhca
