#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "warpverbs/host/capabilities.hpp"
#include "warpverbs/host/gid.hpp"
#include "warpverbs/host/handle.hpp"
#include "warpverbs/host/port.hpp"

namespace warpverbs::host {

/// Names the ConnectX devices of this machine, shorter names first, then by letter: mlx5_2 is before mlx5_10.
/// May be empty.
///
/// @errors  Error: the kernel refuses to list them; one without RDMA has an empty list
std::vector<std::string> DeviceNames();

/// Names the first device with an active port.
///
/// @errors  Error: there is no device, none can be opened, or none has an active port; says which
std::string FirstActiveDevice();

/// An open ConnectX: its context with DEVX, one protection domain, its capabilities.
///
/// Everything made on it must be destroyed before it. Thread-safe once constructed.
class Device {
 public:
  /// @param name  as in DeviceNames(): "mlx5_0"
  /// @errors  Error: no such device, or the kernel refuses a DEVX context
  explicit Device(const std::string& name = FirstActiveDevice());
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  const Capabilities& capabilities() const { return capabilities_; }

  /// All ports, as they are now.
  std::vector<Port> Ports() const;

  /// A port that can carry traffic.
  ///
  /// @param number  from 1; 0 takes the first active one
  /// @errors  Error: the port does not exist or is not active
  Port ActivePort(uint8_t number = 0) const;

  /// A port's GIDs. Entries that are empty or cannot be read are left out.
  std::vector<GidEntry> Gids(const Port& port) const;

  /// A partition key of a port: two ports talk by keys that agree in the low 15 bits, one of them with bit
  /// 15, a full member's. 0xffff on Ethernet, which has no other; 0: there is none at that index.
  ///
  /// @param index  below Port::pkey_table_size
  /// @errors  Error: it cannot be read
  uint16_t PartitionKey(const Port& port, uint16_t index) const;

  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  uint32_t pdn() const { return pdn_; }

 private:
  std::string name_;
  Handle<ibv_context, ibv_close_device> context_;
  Capabilities capabilities_;
  Handle<ibv_pd, ibv_dealloc_pd> pd_;
  uint32_t pdn_ = 0;
};

}  // namespace warpverbs::host
