#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <span>

#include "core/config.hpp"
#include "warpverbs/mlx5/hca_cap.hpp"

/// The capabilities of a ConnectX-7, in the form of each command that reports them.
namespace softhca::uverbs {

ib_uverbs_query_device_resp DeviceAttributes(const DeviceConfig& config);
/// @param port  from 1
ib_uverbs_query_port_resp PortAttributes(const DeviceConfig& config, uint32_t port);
mlx5_ib_alloc_ucontext_resp ContextAttributes(const DeviceConfig& config);

/// Fills the response of QUERY_HCA_CAP. A page that the device does not have stays zero: it has none of its
/// capabilities.
///
/// @param out  the whole response, zeroed
void FillCapabilities(mlx5::CapabilityPage page, const DeviceConfig& config, std::span<mlx5::Be32> out);

}  // namespace softhca::uverbs
