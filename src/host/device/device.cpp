#include "warpverbs/host/device.hpp"

#include <endian.h>
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "device/capabilities.hpp"
#include "device/handle.hpp"
#include "log/log.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using DeviceList = Handle<ibv_device*, ibv_free_device_list>;

constexpr char kNoDevice[] =
    "Plug in a ConnectX and load mlx5_ib, or run this program under softhca (`softhca -- PROGRAM`)";

/// Returns the null-terminated list of all RDMA devices, mlx5 or not; null if there are none.
DeviceList ListDevices() {
  errno = 0;
  DeviceList list(ibv_get_device_list(nullptr));
  // A kernel without RDMA counts as a machine without devices.
  if (!list && errno != 0 && errno != ENOSYS) {
    throw Error::FromErrno("list", "the RDMA devices", errno,
                           "Check the permissions of /sys/class/infiniband_verbs");
  }
  return list;
}

std::vector<ibv_device*> ConnectXDevices(const DeviceList& list) {
  std::vector<ibv_device*> devices;
  for (ibv_device** device = list.get(); device && *device; ++device) {
    if (mlx5dv_is_supported(*device)) devices.push_back(*device);
  }
  return devices;
}

Handle<ibv_context, ibv_close_device> Open(const std::string& name) {
  const DeviceList list = ListDevices();
  for (ibv_device* device : ConnectXDevices(list)) {
    if (name != ibv_get_device_name(device)) continue;
    mlx5dv_context_attr attributes{};
    attributes.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    Handle<ibv_context, ibv_close_device> context(mlx5dv_open_device(device, &attributes));
    if (!context) {
      throw Error::FromErrno(
          "open", name + " with DEVX", errno,
          "Check read and write permission of /dev/infiniband/uverbs* and that the firmware "
          "allows user contexts");
    }
    return context;
  }
  std::string known;
  for (const std::string& other : DeviceNames()) known += (known.empty() ? "" : ", ") + other;
  throw Error("open", name, "no ConnectX has that name",
              known.empty() ? std::string(kNoDevice) : "Name one of: " + known);
}

Port QueryPort(ibv_context* context, uint8_t number) {
  ibv_port_attr attributes{};
  if (const int error = ibv_query_port(context, number, &attributes)) {
    throw Error::FromErrno("query", "port " + std::to_string(number) + " of " + context->device->name, error,
                           "Check that the device is healthy (dmesg)");
  }
  std::string state = ibv_port_state_str(attributes.state);
  if (state.starts_with("PORT_")) state.erase(0, std::strlen("PORT_"));
  std::transform(state.begin(), state.end(), state.begin(), [](unsigned char c) { return std::tolower(c); });
  return {.number = number,
          .active = attributes.state == IBV_PORT_ACTIVE,
          .state = state,
          .link_layer = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kEthernet
                                                                         : LinkLayer::kInfiniBand,
          .active_mtu = static_cast<mlx5::Mtu>(attributes.active_mtu),
          .lid = attributes.lid,
          .grh_required = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0,
          .gid_table_size = static_cast<uint32_t>(attributes.gid_tbl_len),
          .pkey_table_size = attributes.pkey_tbl_len,
          .max_message_bytes = attributes.max_msg_sz};
}

std::vector<Port> QueryPorts(ibv_context* context) {
  const int count = QueryAttributes(context).phys_port_cnt;
  std::vector<Port> ports;
  for (int number = 1; number <= count; ++number) {
    ports.push_back(QueryPort(context, static_cast<uint8_t>(number)));
  }
  return ports;
}

std::string DescribeStates(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) {
    text += (text.empty() ? "port " : ", port ") + std::to_string(port.number) + " is " + port.state;
  }
  return text;
}

Error NoActivePort(const std::string& object, const std::string& reason) {
  return {"use", object, reason,
          "Check the cable and the switch, or bring the link up (`ip link set DEV up`)"};
}

}  // namespace

std::vector<std::string> DeviceNames() {
  const DeviceList list = ListDevices();
  std::vector<std::string> names;
  for (ibv_device* device : ConnectXDevices(list)) names.emplace_back(ibv_get_device_name(device));
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), std::string_view(a)) <
           std::pair(b.size(), std::string_view(b));  // 2 before 10
  });
  return names;
}

std::string FirstActiveDevice() {
  std::string findings;
  std::optional<Error> first_error;
  for (const std::string& name : DeviceNames()) {
    try {
      const std::vector<Port> ports = QueryPorts(Open(name).get());
      if (std::any_of(ports.begin(), ports.end(), [](const Port& port) { return port.active; })) {
        Log(LogLevel::kInfo, [&] {
          return "chose " + name + ", the first device with an active port" +
                 (findings.empty() ? "" : "; " + findings);
        });
        return name;
      }
      findings += (findings.empty() ? "" : "; ") + name + ": " + DescribeStates(ports);
    } catch (const Error& error) {  // the next device may work
      if (!first_error) first_error = error;
    }
  }
  if (!findings.empty()) throw NoActivePort("any RDMA device", "no port is active (" + findings + ")");
  if (first_error) throw *first_error;
  throw Error("find", "an RDMA device", "this machine has no ConnectX", kNoDevice);
}

void Device::Close::operator()(ibv_context* context) const { ibv_close_device(context); }
void Device::Close::operator()(ibv_pd* pd) const { ibv_dealloc_pd(pd); }

Device::Device(const std::string& name)
    : name_(name),
      context_(Open(name).release()),
      capabilities_(QueryCapabilities(context_.get())),
      pd_(ibv_alloc_pd(context_.get())) {
  if (!pd_) {
    throw Error::FromErrno("allocate a protection domain on", name_, errno,
                           "Close other programs that use the device");
  }
  mlx5dv_pd details{};
  mlx5dv_obj object{};
  object.pd = {pd_.get(), &details};
  if (const int error = mlx5dv_init_obj(&object, MLX5DV_OBJ_PD)) {
    throw Error::FromErrno("query the number of the protection domain of", name_, error,
                           "Update rdma-core to version 44 or later");
  }
  pdn_ = details.pdn;
  Log(LogLevel::kInfo, [&] {
    return "opened " + name_ + ", firmware " + capabilities_.firmware + ": " + DescribeStates(Ports());
  });
}

std::vector<Port> Device::Ports() const { return QueryPorts(context_.get()); }

Port Device::ActivePort(uint8_t number) const {
  const std::vector<Port> ports = Ports();
  for (const Port& port : ports) {
    if (port.active && (number == 0 || number == port.number)) return port;
  }
  const std::string object = number == 0 ? name_ : "port " + std::to_string(number) + " of " + name_;
  if (number > ports.size()) {
    throw Error("use", object, "the device has " + std::to_string(ports.size()) + " port(s)",
                "Pass another port");
  }
  throw NoActivePort(object, DescribeStates(ports));
}

std::vector<GidEntry> Device::Gids(const Port& port) const {
  std::vector<GidEntry> entries;
  for (uint32_t index = 0; index < port.gid_table_size; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), port.number, index, &entry, 0) != 0) continue;
    GidEntry read{.index = index, .type = static_cast<GidType>(entry.gid_type)};
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), read.gid.raw.begin());
    if (read.gid != Gid{}) entries.push_back(read);
  }
  return entries;
}

LocalAddress Device::ChooseAddress(uint8_t port_number, int gid_index, const std::optional<Gid>& peer) const {
  const Port port = ActivePort(port_number);
  const std::vector<GidEntry> gids = Gids(port);
  if (gids.empty()) {
    throw Error("send from", "port " + std::to_string(port.number) + " of " + name_, "its GID table is empty",
                "Give its network interface an IP address (`ip addr add ADDRESS dev DEV`)");
  }
  if (gid_index < 0) return {port, *BestGid(gids, peer)};
  for (const GidEntry& entry : gids) {
    if (entry.index == static_cast<uint32_t>(gid_index)) return {port, entry};
  }
  std::string known;
  for (const GidEntry& entry : gids) known += (known.empty() ? "" : ", ") + std::to_string(entry.index);
  throw Error("send from", "port " + std::to_string(port.number) + " of " + name_,
              "it has no GID " + std::to_string(gid_index),
              "Choose one of: " + known + "; or -1 for the best");
}

uint16_t Device::PartitionKey(const Port& port, uint16_t index) const {
  if (port.link_layer == LinkLayer::kEthernet) return 0xffff;
  __be16 key = 0;
  errno = 0;
  if (ibv_query_pkey(context_.get(), port.number, index, &key) != 0) {
    throw Error::FromErrno("read",
                           "the partition key at index " + std::to_string(index) + " of port " +
                               std::to_string(port.number) + " of " + name_,
                           errno != 0 ? errno : EINVAL,
                           "Check that /sys/class/infiniband/" + name_ + "/ports/" +
                               std::to_string(port.number) + "/pkeys can be read");
  }
  return be16toh(key);
}

}  // namespace warpverbs::inline v0_2::host
