#include "device/capabilities.hpp"

#include <infiniband/mlx5dv.h>

#include <algorithm>

#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/hca_cap.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using Page = mlx5::Mailbox<mlx5::query_hca_cap_out::kBytes>;

template <class T>
T Get(const Page& page, mlx5::Field<T> field) {
  return page.Get(field.At(mlx5::query_hca_cap_out::kCapability));
}

/// @return  0 or an errno value
int QueryPage(ibv_context* context, mlx5::CapabilityPage page, Page& out) {
  constexpr uint32_t kCurrent = 1;
  mlx5::Mailbox<mlx5::kCommandHeaderBytes> in;
  in.Set(mlx5::command_in::kOpcode, mlx5::CommandOpcode::kQueryHcaCap)
      .Set(mlx5::command_in::kOpMod, static_cast<uint32_t>(page) << 1 | kCurrent);
  return mlx5dv_devx_general_cmd(context, in.data(), in.size(), out.data(), out.size());
}

Page RequirePage(ibv_context* context, mlx5::CapabilityPage page, const char* name) {
  Page out;
  if (const int error = QueryPage(context, page, out)) {
    throw Error::FromCommand(std::string("query the ") + name + " capabilities of", context->device->name,
                             error, out.data());
  }
  return out;
}

void ReadRocePage(ibv_context* context, Capabilities& capabilities) {
  Page roce;
  if (QueryPage(context, mlx5::CapabilityPage::kRoce, roce) != 0) return;
  const auto low = static_cast<uint16_t>(Get(roce, mlx5::roce_cap::kRRoceMinSrcUdpPort));
  const auto high = static_cast<uint16_t>(Get(roce, mlx5::roce_cap::kRRoceMaxSrcUdpPort));
  if (low != 0 && low <= high) {
    capabilities.min_udp_source_port = low;
    capabilities.max_udp_source_port = high;
  }
  // Firmware that has only the free-running format rejects "default".
  if (Get(roce, mlx5::roce_cap::kQpTsFormat) != 0) {
    capabilities.timestamp_format = mlx5::TimestampFormat::kDefault;
  }
}

}  // namespace

ibv_device_attr QueryAttributes(ibv_context* context) {
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context, &attributes)) {
    throw Error::FromErrno("query device", context->device->name, error,
                           "Check that the device is healthy (dmesg)");
  }
  return attributes;
}

Capabilities QueryCapabilities(ibv_context* context) {
  constexpr uint32_t kHostOrder = 1, kWithUserIndex = 1;
  const ibv_device_attr attributes = QueryAttributes(context);
  const Page general = RequirePage(context, mlx5::CapabilityPage::kGeneral, "general");
  Capabilities capabilities;
  capabilities.firmware = attributes.fw_ver;
  capabilities.max_send_wqebbs = 1u << std::min(Get(general, mlx5::cmd_hca_cap::kLogMaxQpSz), 15u);
  capabilities.max_wqe_bytes = Get(general, mlx5::cmd_hca_cap::kMaxWqeSzSq);
  capabilities.max_receive_bytes = Get(general, mlx5::cmd_hca_cap::kMaxWqeSzRq);
  capabilities.max_cqes =
      1u << std::min(Get(general, mlx5::cmd_hca_cap::kLogMaxCqSz), 23u);  // indices have 24 bits
  capabilities.cqe_user_index = Get(general, mlx5::cmd_hca_cap::kCqeVersion) == kWithUserIndex;
  capabilities.cross_channel = Get(general, mlx5::cmd_hca_cap::kCd);
  capabilities.log_max_message = Get(general, mlx5::cmd_hca_cap::kLogMaxMsg);
  capabilities.max_reads_out = static_cast<uint8_t>(std::clamp(attributes.max_qp_init_rd_atom, 0, 128));
  capabilities.max_reads_in = static_cast<uint8_t>(std::clamp(attributes.max_qp_rd_atom, 0, 128));
  if (Get(general, mlx5::cmd_hca_cap::kAtomic)) {
    const Page atomic = RequirePage(context, mlx5::CapabilityPage::kAtomic, "atomic");
    capabilities.atomic_operations = Get(atomic, mlx5::atomic_caps::kAtomicOperations);
    capabilities.atomic_sizes = Get(atomic, mlx5::atomic_caps::kAtomicSizeQp);
    if (Get(atomic, mlx5::atomic_caps::kAtomicReq8BEndiannessMode) != kHostOrder) {
      capabilities.atomic_sizes &= ~8u;
    }
  }
  if (Get(general, mlx5::cmd_hca_cap::kRoce)) ReadRocePage(context, capabilities);
  return capabilities;
}

}  // namespace warpverbs::inline v0_2::host
