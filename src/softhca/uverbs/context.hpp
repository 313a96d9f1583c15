#pragma once

#include <map>
#include <memory>

#include "core/engine.hpp"
#include "uverbs/errors.hpp"
#include "uverbs/object.hpp"

namespace softhca::uverbs {

/// Page of a device's file that shows the clock, MLX5_IB_MMAP_CLOCK_INFO << 8 in the kernel's numbering.
inline constexpr uint64_t kClockPage = 7 << 8;

/// Returns the page of a device's file that shows a page of card memory, MLX5_IB_MMAP_DEVICE_MEM with an
/// extended index in the kernel's numbering.
///
/// @source  rdma-core v44, providers/mlx5/mlx5.h, set_command() and set_extended_index()
constexpr uint64_t CardMemoryPage(uint32_t index) { return 8 << 8 | (index & 0xff) | index >> 8 << 16; }
constexpr bool IsCardMemoryPage(uint64_t page) { return (page >> 8 & 0xff) == 8; }
constexpr uint64_t CardMemoryPages(uint64_t bytes) { return (bytes + 4095) / 4096; }

/// An open device: its objects by handle, and its event pipes.
///
/// Every call except the constructor, the destructor and the constants needs the engine paused.
class Context {
 public:
  Context(Engine& engine, uint32_t device) : engine_(engine), device_(device) {}
  /// Destroys the remaining objects.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Engine& engine() const { return engine_; }
  uint32_t device() const { return device_; }
  Hca& hca() const { return *engine_.devices()[device_]; }

  bool devx = false;  ///< firmware commands are allowed

  /// Takes ownership of an object that the HCA has just made. To be called before the response, which may
  /// fail for a bad pointer.
  ///
  /// @return  the object's handle
  uint32_t Add(std::unique_ptr<Object> object);

  /// Finds an object that verbs have made, not a firmware command.
  ///
  /// @errors  Errno: ENOENT if it does not exist, EINVAL for another kind
  Object& Get(uint32_t handle, Kind kind);
  template <class T>
  T& Get(uint32_t handle, Kind kind) {
    return static_cast<T&>(Get(handle, kind));
  }
  Object& GetAny(uint32_t handle);

  /// Finds an object by its number in the HCA. Contexts never use each other's objects.
  ///
  /// @errors  CommandError: kBadResource
  const Object& Owned(Kind kind, uint32_t number) const;

  /// @errors  CommandError: kResourceBusy while other objects use it
  void Destroy(uint32_t handle);

  std::shared_ptr<EventPipe> AddPipe(EventSort sort, size_t event_bytes);
  /// Finds the pipe that a descriptor reads from.
  ///
  /// @param event_bytes  0: any length
  /// @errors  Errno: EBADF; EINVAL if it is no pipe of this context for such events
  std::shared_ptr<EventPipe> FindPipe(int fd, EventSort sort, size_t event_bytes) const;
  /// Returns a pipe for the events of objects whose command names none; null if there is none.
  std::shared_ptr<EventPipe> AsyncPipe() const;
  /// Forgets a pipe whose end the program has closed.
  void ForgetPipe(FileId id) { pipes_.erase(id); }
  /// Sends an event of a port or of the device.
  ///
  /// @param type  an ibv_event_type
  void SendAsync(uint32_t type, uint64_t element) const;
  bool HasPipe(FileId id) const { return pipes_.contains(id); }

  /// Returns the index of the first of `pages` free pages for card memory, which are contiguous in the
  /// device's file.
  ///
  /// @param file_bytes  size of the file
  /// @errors  Errno: ENOMEM
  uint16_t NextCardMemoryPage(uint64_t pages, uint64_t file_bytes) const;

  /// Returns an offset in the device's file that nothing else uses. Offsets are not
  /// reused soon: a program may still have a freed page mapped.
  ///
  /// @param file_bytes  size of the file
  /// @errors  Errno: ENOMEM
  uint64_t NextUarOffset(uint64_t file_bytes);

 private:
  const Object* Find(Kind kind, uint32_t number) const;
  void DestroyInHca(const Object& object);

  Engine& engine_;
  uint32_t device_;
  std::map<uint32_t, std::unique_ptr<Object>> objects_;
  std::map<FileId, std::shared_ptr<EventPipe>> pipes_;
  uint32_t last_handle_ = 0;
  uint64_t last_uar_page_ = 0;
};

}  // namespace softhca::uverbs
