#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "cm/manager.hpp"
#include "core/engine.hpp"
#include "ucma/file.hpp"
#include "ucma/id.hpp"
#include "wire/wire_network.hpp"

/// The character device by which librdmacm makes connections: what a kernel has in its ucma module.
namespace softhca::ucma {

/// All ids of a process. The engine's lock is held in every call, but as this is made and destroyed.
class Device {
 public:
  /// @errors  CommandError: the network cannot be opened
  Device(Engine& engine, WireNetwork& network);
  ~Device();

  Id& MakeId(File& file, uint64_t uid, cm::PortSpace space);
  /// @errors  Errno: ENOENT if there is none
  Id& Find(uint32_t number);
  /// @errors  Errno: as Find(); EINVAL if its events come by another opening
  Id& Get(const File& file, uint32_t number);
  /// Takes leave from the peer.
  ///
  /// @return  how many of its events the program has got
  uint32_t Destroy(Id& id);
  /// Destroys what was made by an opening that the program has closed.
  void Close(const File& file);
  /// At the end of the process.
  void CloseAll();
  /// Lets an id's events come by another opening.
  void Migrate(Id& id, File& to);

  /// An event that the program takes; nothing if it was withdrawn in the meantime.
  std::optional<Event> TakeEvent(File& file, uint32_t id);

  Engine& engine() { return engine_; }
  const Devices& devices() const { return engine_.devices(); }
  cm::ConnectionManager& manager() { return manager_; }

 private:
  Engine& engine_;
  WireNetwork& network_;
  cm::ConnectionManager manager_;
  uint32_t last_id_ = 0;
  std::map<uint32_t, std::unique_ptr<Id>> ids_;
};

}  // namespace softhca::ucma
