#pragma once

#include <CLI/CLI.hpp>

#include "common/fabric.hpp"

namespace warpverbs::programs {

inline constexpr char kNcclHelp[] =
    "Without options for the fabric, the variables that NCCL reads are taken: NCCL_IB_HCA, "
    "NCCL_IB_GID_INDEX,\n"
    "NCCL_IB_TC and NCCL_IB_SL.";

/// Adds the options of a command line that go before NCCL's variables, but for the NIC's.
inline void AddFabricOptions(CLI::App& app, FabricOptions& options) {
  app.add_option("--gid-index", options.gid_index, "Send from this GID (NCCL_IB_GID_INDEX, or the best)")
      ->type_name("INDEX")
      ->check(CLI::Range(-1, 65535).description(""));
  app.add_option("--traffic-class", options.traffic_class, "Send in this traffic class (NCCL_IB_TC, or 0)")
      ->type_name("0-255")
      ->check(CLI::Range(0, 255).description(""));
  app.add_option("--service-level", options.service_level, "Send on this service level (NCCL_IB_SL, or 0)")
      ->type_name("0-15")
      ->check(CLI::Range(0, 15).description(""));
}

}  // namespace warpverbs::programs
