#pragma once

#include <memory>
#include <span>

#include "uverbs/context.hpp"
#include "warpverbs/mlx5/commands.hpp"

/// Firmware commands, with big-endian mailboxes for input and output.
namespace softhca::uverbs {

/// The mailboxes of a command. The output is zeroed; the caller writes status and syndrome.
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
  /// Writes an Ethernet address, which layouts split into two fields.
  void SetMac(mlx5::Field<uint32_t> upper16, mlx5::Field<uint32_t> lower32, const Mac& mac) const {
    Set(upper16, uint32_t{mac[0]} << 8 | mac[1]);
    Set(lower32, uint32_t{mac[2]} << 24 | uint32_t{mac[3]} << 16 | uint32_t{mac[4]} << 8 | mac[5]);
  }
};

inline bool IsEthernet(const Mailboxes& mail) {
  return mail.hca().config().link == mlx5::PortType::kEthernet;
}

/// A command with the minimum lengths of its mailboxes.
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

std::span<const QueryCommand> GeneralCommands();    // commands about the device
std::span<const CreateCommand> CreateCommands();    // commands that create an object
// Commands that modify and that read a queue pair, and a DC target.
std::span<const ObjectCommand> ModifyQpCommands();
std::span<const ObjectCommand> QueryQpCommands();
std::span<const ObjectCommand> ModifyDctCommands();
std::span<const ObjectCommand> QueryDctCommands();

std::unique_ptr<Object> CreateQpByDevx(const Mailboxes& mail);
std::unique_ptr<Object> CreateDct(const Mailboxes& mail);

/// Sends an event of an object to all of its subscribers.
///
/// @param type  type of the mlx5 event queue entry
void SendDevxEvent(const Object& object, uint8_t type);

/// Returns memory of a umem of this context.
///
/// @param writable  whether the hardware writes there
///
/// @errors  CommandError: kBadResource, kBadParameter
uint8_t* UmemMemory(Context& context, uint32_t umem, uint64_t offset, uint64_t bytes, bool writable);

/// Checks that a queue or record is aligned. Its umem may start anywhere.
///
/// @errors  CommandError: kBadParameter
void CheckAligned(const void* memory, uintptr_t alignment);

/// Checks a parameter of a command.
///
/// @errors  CommandError: kBadParameter
void CheckParameter(bool good, const char* why);

}  // namespace softhca::uverbs
