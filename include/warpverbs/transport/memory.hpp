#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace warpverbs::transport {

/// What a peer needs to reach memory: a key for each NIC that the memory is registered on.
struct AccessKey {
  static constexpr size_t kMaxNics = 8;

  uint8_t nics = 0;
  std::array<uint32_t, kMaxNics> rkeys{};

  friend bool operator==(const AccessKey&, const AccessKey&) = default;

  /// One word of text, for a peer in another process.
  std::string ToText() const;

  /// @errors  host::Error: not what ToText() made
  static AccessKey FromText(std::string_view text);
};

/// Memory of the peer.
struct RdmaRemoteBuffer {
  void* ptr = nullptr;  ///< as the peer sees it
  AccessKey access_key{};
  size_t len = 0;  ///< how much there is; 0: only the peer's NIC checks the bounds
};

/// How memory is registered.
struct RdmaMemoryOptions {
  uint32_t max_nics = 1;  ///< as many as the transports that use it have: TransportOptions::max_nics
};

/// What is known of registered memory. It stays in its place when the RdmaMemory moves.
class Registration {
 public:
  void* data() const { return data_; }
  size_t size() const { return size_; }
  int GetDevice() const { return device_; }

  /// Whether a range lies inside; an empty one may lie at the end.
  bool Contains(const void* ptr, size_t length) const;

  /// The key for this side.
  ///
  /// @param nic  index in the device's NICs
  /// @errors  std::out_of_range: the memory is not registered on so many
  uint32_t LocalKey(size_t nic = 0) const;

  /// The keys for the peer.
  const AccessKey& RemoteKey() const;

  /// Whether it was registered already, and so cost no call of the kernel.
  bool Reused() const;

  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();

  struct Keys;  // the library's own; operations under way share them
  const std::shared_ptr<const Keys>& keys() const { return keys_; }

 private:
  friend class RdmaMemory;
  Registration(void* data, size_t size, int device, uint32_t max_nics);
  void* At(size_t offset, size_t length) const;
  size_t OffsetOf(const void* ptr) const;

  void* data_;
  size_t size_;
  int device_;
  std::shared_ptr<const Keys> keys_;
};

/// Memory that transports write from, read into, and let peers reach. Registered as long as this lives, and
/// until the NIC is done with what transports have posted of it; the memory itself stays the caller's.
///
/// Registration goes through a cache: a range of what is registered already costs no call of the kernel.
class RdmaMemory {
 public:
  /// Part of registered memory. Used no longer than the RdmaMemory lives, wherever that was moved to.
  class View {
   public:
    View() = default;
    const void* data() const { return data_; }
    size_t size() const { return size_; }
    const Registration* operator->() const { return registration_; }  ///< null: of no registered memory

   protected:
    friend class RdmaMemory;
    View(const Registration* registration, void* data, size_t size)
        : registration_(registration), data_(data), size_(size) {}

    const Registration* registration_ = nullptr;
    void* data_ = nullptr;
    size_t size_ = 0;
  };

  /// One that may be written to.
  class MutableView : public View {
   public:
    using View::View;
    void* mutable_data() const { return data_; }

   private:
    friend class RdmaMemory;
  };

  /// Memory of the host, or of a GPU.
  ///
  /// @param device  as for RdmaTransport
  /// @errors  host::Error: names whose memory it is, each way that was tried, and the cause
  RdmaMemory(void* buffer, size_t length, int device, const RdmaMemoryOptions& options = {});
  RdmaMemory(RdmaMemory&&) noexcept;
  RdmaMemory& operator=(RdmaMemory&&) noexcept;
  ~RdmaMemory();

  // What was moved from has no length and contains nothing; what throws below then throws
  // std::invalid_argument.
  void* data() const { return registration_ ? registration_->data() : nullptr; }
  size_t size() const { return registration_ ? registration_->size() : 0; }
  bool Contains(const void* ptr, size_t length) const {
    return registration_ && registration_->Contains(ptr, length);
  }
  int GetDevice() const { return registration().GetDevice(); }
  uint32_t LocalKey(size_t nic = 0) const { return registration().LocalKey(nic); }
  AccessKey RemoteKey() const { return registration().RemoteKey(); }
  bool Reused() const { return registration().Reused(); }

  /// All of it, as a peer names it.
  RdmaRemoteBuffer Remote() const { return {data(), RemoteKey(), size()}; }

  // Empty views may lie at the end.
  //
  // @errors  std::out_of_range: the view does not lie inside
  View CreateView() const;
  View CreateView(size_t offset, size_t length) const;
  template <class T>  // so that a literal 0 is an offset and no pointer
  View CreateView(const T* ptr, size_t length) const {
    return CreateView(OffsetOf(ptr), length);
  }
  MutableView CreateMutableView() const;
  MutableView CreateMutableView(size_t offset, size_t length) const;
  template <class T>
  MutableView CreateMutableView(T* ptr, size_t length) const {
    void* const start = ptr;  // of nothing const
    return CreateMutableView(OffsetOf(start), length);
  }

 private:
  const Registration& registration() const;
  size_t OffsetOf(const void* ptr) const { return registration().OffsetOf(ptr); }

  std::unique_ptr<const Registration> registration_;
};

}  // namespace warpverbs::transport
