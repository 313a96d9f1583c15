#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>

#include "uverbs/method.hpp"
#include "wire/address_table.hpp"

namespace softhca::uverbs {

Mac ResolveMac(const Engine& engine, const Gid& gid) {
  for (const auto& hca : engine.devices()) {
    for (const PortConfig& port : hca->config().ports) {
      const bool own = std::any_of(port.gids.begin(), port.gids.end(),
                                   [&](const GidEntry& entry) { return entry.gid == gid; });
      if (own) return port.mac;
    }
  }
  return GuessMac(gid);
}

namespace {

void CreateAddressHandle(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_create_ah>(UVERBS_ATTR_CORE_IN);
  const uint32_t pdn = call.context().Get(cmd.pd_handle, Kind::kPd).number;
  const DeviceConfig& config = call.config();
  if (cmd.attr.port_num == 0 || cmd.attr.port_num > config.ports.size())
    throw Errno(EINVAL, "the port does not exist");
  const PortConfig& port = config.ports[cmd.attr.port_num - 1];
  if (cmd.attr.is_global != 0 && cmd.attr.grh.sgid_index >= port.gids.size()) {
    throw Errno(EINVAL, "the local GID does not exist");
  }
  Gid gid;
  std::copy_n(cmd.attr.grh.dgid, gid.size(), gid.begin());
  const Mac mac = ResolveMac(call.context().engine(), gid);
  mlx5_ib_create_ah_resp driver{};
  driver.response_length = offsetof(mlx5_ib_create_ah_resp, reserved);
  std::copy(mac.begin(), mac.end(), driver.dmac);
  ib_uverbs_create_ah_resp resp{};
  resp.ah_handle = call.context().Add(std::make_unique<Object>(Kind::kAddressHandle, pdn));
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
  call.request().Set(UVERBS_ATTR_UHW_OUT, driver);
}

void DestroyAddressHandle(Call& call) { call.Destroy(UVERBS_ATTR_DESTROY_AH_HANDLE, Kind::kAddressHandle); }

constexpr Method kAddressMethods[] = {
    {UVERBS_OBJECT_AH,
     UVERBS_METHOD_AH_DESTROY,
     "DESTROY_AH",
     DestroyAddressHandle,
     {Required(UVERBS_ATTR_DESTROY_AH_HANDLE)}},
};

constexpr WriteCommand kAddressCommands[] = {
    {IB_USER_VERBS_CMD_CREATE_AH, "CREATE_AH", CreateAddressHandle, sizeof(ib_uverbs_create_ah),
     sizeof(ib_uverbs_create_ah_resp)},
};

}  // namespace

std::span<const Method> AddressMethods() { return kAddressMethods; }
std::span<const WriteCommand> AddressCommands() { return kAddressCommands; }

}  // namespace softhca::uverbs
