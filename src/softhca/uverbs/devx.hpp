#pragma once

#include <memory>
#include <span>

#include "uverbs/context.hpp"
#include "warpverbs/mlx5/commands.hpp"

/// Firmware commands: big-endian mailboxes in, and out.
namespace softhca::uverbs {

/// A command's mailboxes; the output is zeroed, status and syndrome are the caller's.
struct Mailboxes {
  Context& context;
  std::span<const mlx5::Be32> in;
  std::span<mlx5::Be32> out;

  Hca& hca() const { return context.hca(); }
  template <class T>
  T Get(mlx5::Field<T> field) const {
    return mlx5::GetField(in, field);
  }
  template <class T>
  void Set(mlx5::Field<T> field, std::type_identity_t<T> value) const {
    mlx5::SetField(out, field, value);
  }
  /// An Ethernet address, which layouts split.
  void SetMac(mlx5::Field<uint32_t> upper16, mlx5::Field<uint32_t> lower32, const Mac& mac) const {
    Set(upper16, uint32_t{mac[0]} << 8 | mac[1]);
    Set(lower32, uint32_t{mac[2]} << 24 | uint32_t{mac[3]} << 16 | uint32_t{mac[4]} << 8 | mac[5]);
  }
};

/// A command with the least lengths of its mailboxes.
template <class Run>
struct DevxCommand {
  mlx5::CommandOpcode opcode;
  size_t in_bytes;
  size_t out_bytes;
  Run* run;
};

using QueryCommand = DevxCommand<void(const Mailboxes&)>;
using CreateCommand = DevxCommand<std::unique_ptr<Object>(const Mailboxes&)>;
using ObjectCommand = DevxCommand<void(const Mailboxes&, const Object&)>;

std::span<const QueryCommand> GeneralCommands();    // about the device
std::span<const CreateCommand> CreateCommands();    // that create an object
std::span<const ObjectCommand> ModifyQpCommands();  // that change one
std::span<const ObjectCommand> QueryQpCommands();   // that read one

std::unique_ptr<Object> CreateQpByDevx(const Mailboxes& mail);

/// Writes an event to whoever has subscribed to those of this kind of the object.
///
/// @param type  as the mlx5 event queue numbers it
void SendDevxEvent(const Object& object, uint8_t type);

/// Memory of a umem of this context, for the hardware to read or, if asked, to write.
///
/// @errors  CommandError: kBadResource, kBadParameter
uint8_t* UmemMemory(Context& context, uint32_t umem, uint64_t offset, uint64_t bytes, bool writable);

/// Refuses queues and records that do not start at a multiple of `alignment`. Their umem may start anywhere.
///
/// @errors  CommandError: kBadParameter
void CheckAligned(const void* memory, uintptr_t alignment);

/// Refuses a value that the device does not take.
///
/// @errors  CommandError: kBadParameter
void CheckParameter(bool good, const char* why);

}  // namespace softhca::uverbs
