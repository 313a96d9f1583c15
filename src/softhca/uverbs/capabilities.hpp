#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <span>

#include "core/config.hpp"
#include "warpverbs/mlx5/hca_cap.hpp"

/// What the device says that it can do: one ConnectX-7, whichever way it is asked.
namespace softhca::uverbs {

ib_uverbs_query_device_resp DeviceAttributes(const DeviceConfig& config);
/// @param port  from 1
ib_uverbs_query_port_resp PortAttributes(const DeviceConfig& config, uint32_t port);
mlx5_ib_alloc_ucontext_resp ContextAttributes(const DeviceConfig& config);

/// Fills the answer to QUERY_HCA_CAP.
///
/// @param out  the whole answer, zeroed
/// @errors  CommandError: kBadParameter for a page that this device does not have
void FillCapabilities(mlx5::CapabilityPage page, const DeviceConfig& config, std::span<mlx5::Be32> out);

}  // namespace softhca::uverbs
