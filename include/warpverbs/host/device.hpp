#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "warpverbs/host/gid.hpp"
#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/version.hpp"

struct ibv_context;
struct ibv_pd;

namespace warpverbs::inline v0_2::host {

/// What a device can do, as far as this library asks.
struct Capabilities {
  std::string firmware;            ///< "28.39.1002"
  uint32_t max_send_wqebbs = 0;    ///< deepest send queue
  uint32_t max_wqe_bytes = 0;      ///< largest work queue entry
  uint32_t max_receive_bytes = 0;  ///< largest entry of a receive queue
  uint32_t max_cqes = 0;           ///< deepest completion queue
  uint32_t log_max_message = 0;    ///< log2 of the longest message in bytes
  uint8_t max_reads_out = 0;       ///< reads and atomics that a queue pair may have outstanding
  uint8_t max_reads_in = 0;        ///< reads and atomics that a queue pair serves at a time
  uint32_t atomic_operations = 0;  ///< bits of mlx5::AtomicOperation
  uint32_t atomic_sizes = 0;       ///< sum of the sizes in bytes: 4 | 8; no 8 if those are big-endian only
  bool cqe_user_index = false;     ///< completions name their queue pair by its user index
  bool cross_channel = false;      ///< a queue can wait for the completions of another
  mlx5::TimestampFormat timestamp_format = mlx5::TimestampFormat::kFreeRunning;
  uint16_t min_udp_source_port = 0xc000;  ///< RoCE v2
  uint16_t max_udp_source_port = 0xffff;

  bool atomics() const { return atomic_operations != 0 && atomic_sizes != 0; }
};

/// A port of a device at the time of the query.
struct Port {
  uint8_t number = 0;  ///< from 1
  bool active = false;
  std::string state;  ///< "active", "down", "armed"
  LinkLayer link_layer = LinkLayer::kEthernet;
  mlx5::Mtu active_mtu = mlx5::Mtu::k1024;
  uint16_t lid = 0;  ///< 0 on Ethernet
  bool grh_required = false;
  uint32_t gid_table_size = 0;
  uint32_t pkey_table_size = 0;
  uint32_t max_message_bytes = 0;
};

/// A source address: a port and one of its GIDs.
struct LocalAddress {
  Port port;
  GidEntry gid;
};

/// Names the ConnectX devices of this machine, shorter names first, then by letter: mlx5_2 is before mlx5_10.
/// May be empty.
///
/// @errors  Error: the kernel refuses to list them; a kernel without RDMA gives an empty list
WARPVERBS_EXPORT std::vector<std::string> DeviceNames();

/// Names the first device with an active port.
///
/// @errors  Error: no device exists, none can be opened, or none has an active port; says which
WARPVERBS_EXPORT std::string FirstActiveDevice();

/// An open ConnectX: its context with DEVX, one protection domain, its capabilities.
///
/// Destroy everything made on it first. Thread-safe once constructed.
class WARPVERBS_EXPORT Device {
 public:
  /// @param name  one of DeviceNames(): "mlx5_0"
  /// @errors  Error: the device does not exist, or the kernel refuses a DEVX context
  explicit Device(const std::string& name = FirstActiveDevice());
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  const Capabilities& capabilities() const { return capabilities_; }

  /// Queries all ports.
  std::vector<Port> Ports() const;

  /// Returns a port that can carry traffic.
  ///
  /// @param number  from 1; 0 takes the first active one
  /// @errors  Error: the port does not exist or is not active
  Port ActivePort(uint8_t number = 0) const;

  /// Reads a port's GIDs, without entries that are empty or cannot be read.
  std::vector<GidEntry> Gids(const Port& port) const;

  /// Chooses the port and the GID to send from.
  ///
  /// @param port       0: the first active one
  /// @param gid_index  -1: the best by BestGid()
  /// @param peer       the address to suit; empty: any
  /// @errors  Error: the port is not active, lacks that GID, or has none
  LocalAddress ChooseAddress(uint8_t port = 0, int gid_index = -1, const std::optional<Gid>& peer = {}) const;

  /// Reads a partition key of a port.
  ///
  /// Two ports can talk if their keys agree in the low 15 bits and one has bit 15, a full member's.
  ///
  /// @param index  below Port::pkey_table_size
  /// @return  0xffff on Ethernet, which has no other; 0: the entry is empty
  /// @errors  Error: it cannot be read
  uint16_t PartitionKey(const Port& port, uint16_t index) const;

  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  uint32_t pdn() const { return pdn_; }

 private:
  struct Close {
    void operator()(ibv_context* context) const;
    void operator()(ibv_pd* pd) const;
  };

  std::string name_;
  std::unique_ptr<ibv_context, Close> context_;
  Capabilities capabilities_;
  std::unique_ptr<ibv_pd, Close> pd_;
  uint32_t pdn_ = 0;
};

constexpr uint32_t Bytes(mlx5::Mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

}  // namespace warpverbs::inline v0_2::host
