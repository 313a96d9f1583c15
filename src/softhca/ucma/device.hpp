#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "cm/manager.hpp"
#include "core/engine.hpp"
#include "ucma/file.hpp"
#include "ucma/id.hpp"
#include "wire/wire_network.hpp"

/// The character device by which librdmacm makes connections: the ucma module of a kernel.
namespace softhca::ucma {

/// All ids of a process. Callers hold the engine's lock, except in the constructor and destructor.
class Device {
 public:
  /// @errors  CommandError: the network cannot be opened
  Device(Engine& engine, WireNetwork& network);
  ~Device();

  Id& MakeId(File& file, uint64_t uid, cm::PortSpace space);
  /// @errors  Errno: ENOENT if the id does not exist
  Id& Find(uint32_t number);
  /// @errors  Errno: as Find(); EINVAL if its events go to another file
  Id& Get(const File& file, uint32_t number);
  /// Destroys an id, and tells its peer.
  ///
  /// @return  the number of its events that the program has read
  uint32_t Destroy(Id& id);
  /// Destroys the ids of a file that the program has closed.
  void Close(const File& file);
  /// Destroys all ids at the end of the process.
  void CloseAll();
  /// Moves the events of an id to another file.
  void Migrate(Id& id, File& to);

  /// Joins an id to a multicast group, and reports it. The number of the membership is one that no id has.
  ///
  /// @param uid  the program's name for the membership
  /// @errors  Errno: as Id::DescribeGroup()
  uint32_t Join(Id& id, const IpPort& group, uint64_t uid);
  /// @return  the number of the membership's events that the program has read
  /// @errors  Errno: ENOENT if the membership does not exist; EINVAL if its events go to another file
  uint32_t Leave(const File& file, uint32_t number);
  /// Ends all memberships of an id.
  void LeaveAll(const Id& id);

  /// Takes the oldest event of an id or membership.
  ///
  /// @return  nothing if the event was withdrawn in the meantime
  std::optional<Event> TakeEvent(File& file, uint32_t id);

  Engine& engine() { return engine_; }
  const Devices& devices() const { return engine_.devices(); }
  cm::ConnectionManager& manager() { return manager_; }

 private:
  /// Membership of an id in a multicast group.
  struct Membership {
    Id* id;
    uint32_t events_reported = 0;
  };

  uint32_t NextNumber();

  Engine& engine_;
  WireNetwork& network_;
  cm::ConnectionManager manager_;
  uint32_t last_id_ = 0;
  std::map<uint32_t, Membership> memberships_;
  std::map<uint32_t, std::unique_ptr<Id>> ids_;
};

/// Executes a command that the program has written to the device. The command that takes an event waits for
/// it with no lock held.
///
/// @param address  address of the command in the program's memory
/// @errors  Errno, CommandError: the command's; EINVAL for a malformed command
void RunCommand(Device& device, File& file, uint64_t address, size_t bytes);

/// Returns the name of a command for messages; "command" if it is unreadable.
const char* CommandName(uint64_t address, size_t bytes);

}  // namespace softhca::ucma
