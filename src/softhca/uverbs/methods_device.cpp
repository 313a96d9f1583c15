#include <infiniband/verbs.h>
#include <net/if.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/limits.hpp"
#include "uverbs/capabilities.hpp"
#include "uverbs/descriptors.hpp"
#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

/// Writes the driver's part of the QUERY_DEVICE response: no offloads.
void AnswerDriver(IoctlRequest& request) {
  mlx5_ib_query_device_resp driver{};
  driver.response_length =
      static_cast<uint32_t>(std::min(request.Length(UVERBS_ATTR_UHW_OUT), sizeof driver));
  request.Set(UVERBS_ATTR_UHW_OUT, driver);
}

void QueryDevice(Call& call) {
  call.request().Set(UVERBS_ATTR_CORE_OUT, DeviceAttributes(call.config()));
  AnswerDriver(call.request());
}

void QueryDeviceEx(Call& call) {
  if (call.request().Get<ib_uverbs_ex_query_device>(UVERBS_ATTR_CORE_IN).comp_mask != 0) {
    throw Errno(EINVAL, "the compatibility mask is unknown");
  }
  ib_uverbs_ex_query_device_resp resp{};
  resp.base = DeviceAttributes(call.config());
  resp.response_length =
      static_cast<uint32_t>(std::min(call.request().Length(UVERBS_ATTR_CORE_OUT), sizeof resp));
  resp.timestamp_mask = INT64_MAX;
  resp.hca_core_clock = limits::kClockKhz;
  resp.max_dm_size = limits::kCardMemoryBytes;
  resp.device_cap_flags_ex = resp.base.device_cap_flags;
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
  AnswerDriver(call.request());
}

/// Writes the page from which a program learns how completions' timestamps map to the time of day. Both count
/// nanoseconds, so the page needs no updates.
///
/// @return  false if the file is too short for it, because of a limit on file sizes
bool ShowClock(int fd) {
  constexpr uint64_t kOffset = kClockPage * mlx5::kUarPageBytes;
  if (FileBytes(fd) < kOffset + mlx5::kUarPageBytes) return false;
  const auto ns = [](auto now) {
    return static_cast<uint64_t>(std::chrono::nanoseconds(now.time_since_epoch()).count());
  };
  mlx5_ib_clock_info clock{};
  clock.cycles = ns(std::chrono::steady_clock::now());
  clock.nsec = ns(std::chrono::system_clock::now());
  clock.mult = 1;
  clock.mask = INT64_MAX;
  clock.overflow_period = INT64_MAX / 2;
  return pwrite(fd, &clock, sizeof clock, static_cast<off_t>(kOffset)) == sizeof clock;
}

void GetContext(Call& call) {
  IoctlRequest& request = call.request();
  const auto cmd = request.GetExtensible<mlx5_ib_alloc_ucontext_req_v2>(UVERBS_ATTR_UHW_IN);
  if (cmd.max_cqe_version == 0 || (cmd.lib_caps & MLX5_LIB_CAP_DYN_UAR) == 0) {
    throw Errno(EOPNOTSUPP,
                "libmlx5 is too old: it knows neither CQE version 1 nor UARs allocated one by one");
  }
  call.context().devx = (cmd.flags & MLX5_IB_ALLOC_UCTX_DEVX) != 0;
  request.Set(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, limits::kCompletionVectors);
  request.Set(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, uint64_t{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
  mlx5_ib_alloc_ucontext_resp attributes = ContextAttributes(call.config());
  if (ShowClock(call.fd())) attributes.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1;
  request.Set(UVERBS_ATTR_UHW_OUT, attributes);
}

void QueryContext(Call& call) {
  IoctlRequest& request = call.request();
  request.Set(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, limits::kCompletionVectors);
  request.Set(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, uint64_t{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
  request.Set(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, ContextAttributes(call.config()));
}

uint32_t CheckPort(const DeviceConfig& config, uint32_t port) {
  if (port == 0 || port > config.ports.size())
    throw Errno(EINVAL, "port " + std::to_string(port) + " does not exist");
  return port;
}

void QueryPort(Call& call) {
  const auto port = CheckPort(call.config(), call.request().Get<uint8_t>(UVERBS_ATTR_QUERY_PORT_PORT_NUM));
  ib_uverbs_query_port_resp_ex resp{};
  resp.legacy_resp = PortAttributes(call.config(), port);
  // Newer kernels return the speed once more, in a field that older headers reserve.
  // Linux v6.13, include/uapi/rdma/ib_user_ioctl_verbs.h, ib_uverbs_query_port_resp_ex
  constexpr size_t kActiveSpeed = sizeof resp - sizeof(uint32_t);
  const uint32_t active_speed = resp.legacy_resp.active_speed;
  std::memcpy(reinterpret_cast<uint8_t*>(&resp) + kActiveSpeed, &active_speed, sizeof active_speed);
  call.request().Set(UVERBS_ATTR_QUERY_PORT_RESP, resp);
}

// rdma-core 44 does not have these names.
// @source  rdma-core v65, kernel-headers/rdma/ib_user_ioctl_cmds.h, uverbs_methods_device and
// uverbs_attrs_query_port_speed_cmd_attr_ids
constexpr uint16_t kQueryPortSpeed = UVERBS_METHOD_QUERY_GID_ENTRY + 1;
constexpr uint16_t kQueryPortSpeedPort = 0, kQueryPortSpeedResponse = 1;

/// Answers with the port's bandwidth in units of 100 Mb/s.
void QueryPortSpeed(Call& call) {
  const auto port = CheckPort(call.config(), call.request().Get<uint32_t>(kQueryPortSpeedPort));
  constexpr uint64_t kSpeed = limits::kPortGigabits * 10;
  call.request().Set(kQueryPortSpeedResponse, call.config().ports[port - 1].up ? kSpeed : uint64_t{0});
}

ib_uverbs_gid_entry Describe(const DeviceConfig& config, uint32_t port, uint32_t index) {
  const GidEntry& entry = config.ports[port - 1].gids[index];
  ib_uverbs_gid_entry result{};
  std::memcpy(result.gid, entry.gid.data(), entry.gid.size());
  result.gid_index = index;
  result.port_num = port;
  result.gid_type = config.link == mlx5::PortType::kInfiniBand ? IB_UVERBS_GID_TYPE_IB
                    : entry.version == mlx5::RoceVersion::kV2  ? IB_UVERBS_GID_TYPE_ROCE_V2
                                                               : IB_UVERBS_GID_TYPE_ROCE_V1;
  const std::string& interface = config.ports[port - 1].interface;
  if (!interface.empty()) result.netdev_ifindex = if_nametoindex(interface.c_str());
  return result;
}

void CheckFlags(uint32_t flags) {
  if (flags != 0) throw Errno(EINVAL, "the flags are unknown");
}

void QueryGidEntry(Call& call) {
  const IoctlRequest& request = call.request();
  CheckFlags(request.Get<uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS));
  const auto port = CheckPort(call.config(), request.Get<uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_PORT));
  const auto index = request.Get<uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
  if (index >= limits::GidTableSize(call.config().link))
    throw Errno(EINVAL, "the index exceeds the GID table");
  if (index >= call.config().ports[port - 1].gids.size()) {
    throw Errno(ENODATA, "GID " + std::to_string(index) + " is empty");
  }
  call.request().Set(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, Describe(call.config(), port, index));
}

void QueryGidTable(Call& call) {
  IoctlRequest& request = call.request();
  CheckFlags(request.Get<uint32_t>(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS));
  const auto stride = request.Get<uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
  if (stride == 0) throw Errno(EINVAL, "the size of a GID entry is 0");
  std::vector<uint8_t> table;
  uint64_t count = 0;
  for (uint32_t port = 1; port <= call.config().ports.size(); ++port) {
    for (uint32_t index = 0; index < call.config().ports[port - 1].gids.size(); ++index, ++count) {
      const ib_uverbs_gid_entry entry = Describe(call.config(), port, index);
      if ((count + 1) * stride > request.Length(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES)) {
        throw Errno(EINVAL, "the buffer is too small for the GIDs");
      }
      table.resize((count + 1) * stride);
      std::memcpy(table.data() + count * stride, &entry, std::min<size_t>(stride, sizeof entry));
    }
  }
  request.SetBytes(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, table);
  request.Set(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count);
}

/// Describes the port of the embedded switch that a port is behind. There is none, as on a card that is not in
/// switchdev mode.
///
/// @source  Linux v6.12, drivers/infiniband/hw/mlx5/std_types.c, MLX5_IB_METHOD_QUERY_PORT
void QuerySwitchPort(Call& call) {
  CheckPort(call.config(), call.request().Get<uint32_t>(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM));
  call.request().Set(MLX5_IB_ATTR_QUERY_PORT, mlx5_ib_uapi_query_port{});
}

constexpr Method kDeviceMethods[] = {
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_INVOKE_WRITE,
     "INVOKE_WRITE",
     InvokeWrite,
     {Required(UVERBS_ATTR_WRITE_CMD), Optional(UVERBS_ATTR_CORE_IN), Optional(UVERBS_ATTR_CORE_OUT),
      Optional(UVERBS_ATTR_UHW_IN), Optional(UVERBS_ATTR_UHW_OUT)}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_GET_CONTEXT,
     "GET_CONTEXT",
     GetContext,
     {Optional(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS), Optional(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT),
      Optional(UVERBS_ATTR_UHW_IN), Optional(UVERBS_ATTR_UHW_OUT)}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_CONTEXT,
     "QUERY_CONTEXT",
     QueryContext,
     {Optional(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS), Optional(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT),
      Optional(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX)}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_PORT,
     "QUERY_PORT",
     QueryPort,
     {Required(UVERBS_ATTR_QUERY_PORT_PORT_NUM), Required(UVERBS_ATTR_QUERY_PORT_RESP)}},
    {UVERBS_OBJECT_DEVICE,
     MLX5_IB_METHOD_QUERY_PORT,
     "MLX5_QUERY_PORT",
     QuerySwitchPort,
     {Required(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM), Required(MLX5_IB_ATTR_QUERY_PORT)}},
    {UVERBS_OBJECT_DEVICE,
     kQueryPortSpeed,
     "QUERY_PORT_SPEED",
     QueryPortSpeed,
     {Required(kQueryPortSpeedPort), Required(kQueryPortSpeedResponse)}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_GID_ENTRY,
     "QUERY_GID_ENTRY",
     QueryGidEntry,
     {Required(UVERBS_ATTR_QUERY_GID_ENTRY_PORT), Required(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
      Required(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS), Required(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY)}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_GID_TABLE,
     "QUERY_GID_TABLE",
     QueryGidTable,
     {Required(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE), Required(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS),
      Required(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES),
      Required(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES)}},
};

constexpr WriteCommand kDeviceCommands[] = {
    {IB_USER_VERBS_CMD_QUERY_DEVICE, "QUERY_DEVICE", QueryDevice, sizeof(ib_uverbs_query_device),
     sizeof(ib_uverbs_query_device_resp)},
    {IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "EX_QUERY_DEVICE", QueryDeviceEx,
     sizeof(ib_uverbs_ex_query_device), offsetof(ib_uverbs_ex_query_device_resp, odp_caps)},
};

}  // namespace

std::span<const Method> DeviceMethods() { return kDeviceMethods; }
std::span<const WriteCommand> DeviceCommands() { return kDeviceCommands; }

}  // namespace softhca::uverbs
