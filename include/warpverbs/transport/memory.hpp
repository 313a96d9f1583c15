#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {
class Buffer;
}

namespace warpverbs::inline v0_2::transport {

/// The keys by which a peer reaches memory: one for each NIC that the memory is registered on.
struct WARPVERBS_EXPORT AccessKey {
  static constexpr size_t kMaxNics = 8;

  uint8_t nics = 0;
  std::array<uint32_t, kMaxNics> rkeys{};

  friend bool operator==(const AccessKey&, const AccessKey&) = default;

  /// Serializes the keys as one word of text, for a peer in another process.
  std::string ToText() const;

  /// @errors  host::Error: the text does not come from ToText()
  static AccessKey FromText(std::string_view text);
};

/// Memory of the peer.
struct RdmaRemoteBuffer {
  void* ptr = nullptr;  ///< address on the peer
  AccessKey access_key{};
  size_t len = 0;  ///< size in bytes; 0: unknown, so only the peer's NIC checks bounds
};

/// The configuration of an RdmaMemory.
struct RdmaMemoryConfig {
  uint32_t max_nics = 1;  ///< TransportConfig::max_nics of the transports that use the memory
};

/// The registration of memory. Stays at its address when the RdmaMemory moves.
class WARPVERBS_EXPORT Registration {
 public:
  void* data() const { return data_; }
  size_t size() const { return size_; }
  int GetDevice() const { return device_; }

  /// Says whether a range is inside. An empty range may be at the end.
  bool Contains(const void* ptr, size_t length) const;

  /// Returns the key for this side.
  ///
  /// @param nic  index among the device's NICs
  /// @errors  std::out_of_range: the memory is not registered on that NIC
  uint32_t LocalKey(size_t nic = 0) const;

  /// Returns the keys for the peer.
  const AccessKey& RemoteKey() const;

  /// Says whether the memory was registered already, which saved a system call.
  bool Reused() const;

  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();

  struct Keys;  // the library's own; operations under way share them
  const std::shared_ptr<const Keys>& keys() const { return keys_; }

 private:
  friend class RdmaMemory;
  Registration(void* data, size_t size, int device, uint32_t max_nics, bool writable);
  Registration(const host::Buffer& buffer, int device, uint32_t max_nics);
  void* At(size_t offset, size_t length) const;
  size_t OffsetOf(const void* ptr) const;

  void* data_;
  size_t size_;
  int device_;
  bool writable_;
  std::shared_ptr<const Keys> keys_;
};

/// Registers memory that transports write from, read into, and let peers reach.
///
/// The memory stays the caller's. It is registered until this is destroyed and the NIC has finished all
/// posted operations on it. Registrations are cached: a range of registered memory costs no system call.
class WARPVERBS_EXPORT RdmaMemory {
 public:
  /// Part of registered memory. Valid until the RdmaMemory is destroyed; moving it does no harm.
  class View {
   public:
    View() = default;
    const void* data() const { return data_; }
    size_t size() const { return size_; }
    const Registration* operator->() const {
      return registration_;
    }  ///< null: the view has no registered memory

   protected:
    friend class RdmaMemory;
    View(const Registration* registration, void* data, size_t size)
        : registration_(registration), data_(data), size_(size) {}

    const Registration* registration_ = nullptr;
    void* data_ = nullptr;
    size_t size_ = 0;
  };

  /// A view of memory that may be written to.
  class MutableView : public View {
   public:
    using View::View;
    void* mutable_data() const { return data_; }

   private:
    friend class RdmaMemory;
  };

  /// Registers memory of the host or of a GPU.
  ///
  /// @param device  as for RdmaTransport
  /// @errors  host::Error: names the kind of memory, each method that was tried, and the cause
  RdmaMemory(void* buffer, size_t length, int device, const RdmaMemoryConfig& config = {});

  /// Registers memory that no NIC may write: to write from, and for peers to read.
  ///
  /// @errors  as above
  RdmaMemory(const void* buffer, size_t length, int device, const RdmaMemoryConfig& config = {});

  /// Registers all of a buffer, also memory of which only a file is known, such as another process's dma-buf.
  /// Each call registers it again: nothing is cached.
  ///
  /// @errors  host::Error: as above
  RdmaMemory(const host::Buffer& buffer, int device, const RdmaMemoryConfig& config = {});
  RdmaMemory(RdmaMemory&&) noexcept;
  RdmaMemory& operator=(RdmaMemory&&) noexcept;
  ~RdmaMemory();

  // A moved-from RdmaMemory has size 0 and contains nothing; the other functions throw std::invalid_argument.
  void* data() const { return registration_ ? registration_->data() : nullptr; }
  size_t size() const { return registration_ ? registration_->size() : 0; }
  bool Contains(const void* ptr, size_t length) const {
    return registration_ && registration_->Contains(ptr, length);
  }
  int GetDevice() const { return registration().GetDevice(); }
  uint32_t LocalKey(size_t nic = 0) const { return registration().LocalKey(nic); }
  AccessKey RemoteKey() const { return registration().RemoteKey(); }
  bool Reused() const { return registration().Reused(); }

  /// Returns all of the memory, as a peer names it.
  RdmaRemoteBuffer Remote() const { return {data(), RemoteKey(), size()}; }

  /// Returns a view of all of the memory, or of a part. An empty view may be at the end.
  ///
  /// @errors  std::out_of_range: the view is not inside; std::invalid_argument: a mutable view of
  ///          memory that was registered by a pointer to const
  View CreateView() const;
  View CreateView(size_t offset, size_t length) const;
  template <class T>  // makes a literal 0 an offset, not a pointer
  View CreateView(const T* ptr, size_t length) const {
    return CreateView(OffsetOf(ptr), length);
  }
  MutableView CreateMutableView() const;
  MutableView CreateMutableView(size_t offset, size_t length) const;
  template <class T>
  MutableView CreateMutableView(T* ptr, size_t length) const {
    void* const start = ptr;  // refuses pointers to const
    return CreateMutableView(OffsetOf(start), length);
  }

 private:
  const Registration& registration() const;
  size_t OffsetOf(const void* ptr) const { return registration().OffsetOf(ptr); }

  std::unique_ptr<const Registration> registration_;
};

}  // namespace warpverbs::inline v0_2::transport
