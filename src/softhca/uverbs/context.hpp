#pragma once

#include <map>
#include <memory>

#include "core/engine.hpp"
#include "uverbs/errors.hpp"
#include "uverbs/object.hpp"

namespace softhca::uverbs {

/// One opening of a device: the objects made through it, by handle, and its event pipes.
///
/// All but the constructor, the destructor and the constants need the engine paused.
class Context {
 public:
  Context(Engine& engine, uint32_t device) : engine_(engine), device_(device) {}
  /// Destroys what is left.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Engine& engine() const { return engine_; }
  uint32_t device() const { return device_; }
  Hca& hca() const { return *engine_.devices()[device_]; }

  bool devx = false;  ///< may use firmware commands

  /// Takes over an object that the HCA has just made; before any answer, which may fail for a bad pointer.
  ///
  /// @return  the new object's handle
  uint32_t Add(std::unique_ptr<Object> object);

  /// Finds an object that was made by verbs; those of firmware commands are of no use to verbs.
  ///
  /// @errors  Errno: ENOENT for no object, EINVAL for one of another kind
  Object& Get(uint32_t handle, Kind kind);
  template <class T>
  T& Get(uint32_t handle, Kind kind) {
    return static_cast<T&>(Get(handle, kind));
  }
  Object& GetAny(uint32_t handle);

  /// A command may name only what its own context has made: contexts never use each other's objects.
  ///
  /// @errors  CommandError: kBadResource
  const Object& Owned(Kind kind, uint32_t number) const;

  /// @errors  CommandError: kResourceBusy while others use it
  void Destroy(uint32_t handle);

  /// @return  the pipe that a descriptor reads from
  std::shared_ptr<EventPipe> AddPipe(EventSort sort, size_t event_bytes);
  /// @param event_bytes  0: of any length
  /// @errors  Errno: EBADF, EINVAL if there is none for such events
  std::shared_ptr<EventPipe> FindPipe(int fd, EventSort sort, size_t event_bytes) const;
  /// The program has closed its end.
  void ForgetPipe(FileId id) { pipes_.erase(id); }
  /// Announces an event of a port or of the device.
  ///
  /// @param type  an ibv_event_type
  void SendAsync(uint32_t type, uint64_t element) const;
  bool HasPipe(FileId id) const { return pipes_.contains(id); }

  /// Where the next UAR page lies in the device's file.
  uint64_t NextUarOffset() { return uar_offset_ += mlx5::kUarPageBytes; }

 private:
  const Object* Find(Kind kind, uint32_t number) const;
  void DestroyInHca(const Object& object);

  Engine& engine_;
  uint32_t device_;
  std::map<uint32_t, std::unique_ptr<Object>> objects_;
  std::map<FileId, std::shared_ptr<EventPipe>> pipes_;
  uint32_t last_handle_ = 0;
  uint64_t uar_offset_ = 0;
};

}  // namespace softhca::uverbs
