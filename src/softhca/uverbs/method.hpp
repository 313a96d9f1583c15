#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <array>
#include <optional>
#include <span>

#include "sync/mutex.hpp"
#include "uverbs/context.hpp"
#include "uverbs/ioctl_request.hpp"

namespace softhca::uverbs {

/// A command in execution.
class Call {
 public:
  Call(int fd, Context& context, IoctlRequest& request) : fd_(fd), context_(context), request_(request) {}

  /// Returns the device's descriptor that the program used.
  int fd() const { return fd_; }
  IoctlRequest& request() const { return request_; }
  const DeviceConfig& config() const { return context_.hca().config(); }

  /// Returns the context. The first use of the context or its device pauses the hardware until the call ends,
  /// so slow work such as populating memory comes before.
  Context& context() {
    if (!lock_) lock_.emplace(context_.engine().Pause());
    return context_;
  }
  Hca& hca() { return context().hca(); }

  /// Finds the object whose handle an attribute holds. Verbs must have made it.
  ///
  /// @errors  Errno: EINVAL, ENOENT
  template <class T = Object>
  T& Get(uint16_t id, Kind kind) {
    return context().Get<T>(request_.Handle(id), kind);
  }
  /// Finds the event pipe whose descriptor an attribute holds; null if the attribute is absent.
  ///
  /// @errors  Errno: EBADF, EINVAL
  template <class Event>
  std::shared_ptr<EventPipe> Pipe(uint16_t id) {
    if (!request_.Has(id)) return nullptr;
    return context().FindPipe(static_cast<int>(request_.Handle(id)), EventSort::kVerbs, sizeof(Event));
  }
  /// Destroys the object whose handle an attribute holds.
  ///
  /// @errors  Errno: EINVAL, ENOENT; CommandError: kResourceBusy while other objects use it
  void Destroy(uint16_t id, Kind kind) {
    Get(id, kind);
    context().Destroy(request_.Handle(id));
  }

 private:
  int fd_;
  Context& context_;
  IoctlRequest& request_;
  std::optional<sync::UniqueLock> lock_;
};

/// A method of the kernel's interface.
struct Method {
  uint16_t object;
  uint16_t id;
  const char* name;
  void (*run)(Call&);
  std::array<Attribute, 18> attributes{};
};

/// A command of the older, structure-based interface, carried by an ioctl.
struct WriteCommand {
  uint32_t id;
  const char* name;
  void (*run)(Call&);
  size_t input_bytes;
  size_t output_bytes;
};

// One table for each kind of object.
std::span<const Method> DeviceMethods();
std::span<const Method> PdMethods();
std::span<const Method> MrMethods();
std::span<const Method> MwMethods();
std::span<const Method> XrcdMethods();
std::span<const Method> CqMethods();
std::span<const Method> SrqMethods();
std::span<const Method> QpMethods();
std::span<const Method> AddressMethods();
std::span<const Method> EventMethods();
std::span<const Method> UarMethods();
std::span<const Method> CardMemoryMethods();
std::span<const Method> DevxMethods();
std::span<const Method> DevxEventMethods();

std::span<const WriteCommand> DeviceCommands();
std::span<const WriteCommand> PdCommands();
std::span<const WriteCommand> MrCommands();
std::span<const WriteCommand> MwCommands();
std::span<const WriteCommand> XrcdCommands();
std::span<const WriteCommand> CqCommands();
std::span<const WriteCommand> EventCommands();
std::span<const WriteCommand> SrqCommands();
std::span<const WriteCommand> QpCommands();
std::span<const WriteCommand> AddressCommands();

/// Finds and runs the method of a command.
///
/// @errors  Errno, CommandError
void Dispatch(Call& call);
/// Returns the name of the method, for messages.
const char* Name(const IoctlRequest& request);

/// DEVICE/INVOKE_WRITE: finds and runs the structure-based command.
void InvokeWrite(Call& call);

/// MODIFY_QP and EX_MODIFY_QP of the verbs interface.
void ModifyQpByVerbs(Call& call);
/// QUERY_QP of the verbs interface.
void QueryQpByVerbs(Call& call);

/// Returns the Ethernet address for a GID, which a kernel would find in its neighbour table.
///
/// @return  the MAC of this process's port that has the GID; otherwise the one in a link-local GID, or one
///          derived from the IPv4 address
Mac ResolveMac(const Engine& engine, const Gid& gid);

}  // namespace softhca::uverbs
