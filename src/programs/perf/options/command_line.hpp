#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric.hpp"
#include "perf/options/options.hpp"

namespace warpverbs::perf {

/// A command line as it was written: what was not given is empty.
struct CommandLine {
  std::string test = "write", measure = "bandwidth", atomic_type{};
  std::vector<std::string> words{};  ///< the server's host, or the files to plot
  programs::FabricOptions fabric{};
  std::optional<int> tcp_port{}, nic_port{}, mtu{}, ack_timeout{}, retry_count{}, hop_limit{}, pkey_index{};
  bool rdma_cm = false;

  std::optional<uint64_t> size{};
  bool all = false;
  std::optional<uint32_t> iterations{}, tx_depth{}, rx_depth{}, cq_mod{}, qps{}, inline_bytes{};
  std::optional<double> duration{}, margin{};
  bool bidirectional = false, no_peak = false, warm_up = false, data_validation = false;
  int patience_s = 30;

  std::string connection{}, initiator{}, scope{}, sharing{}, placement{};
  std::optional<uint32_t> posters{}, batch{};

  std::optional<int> use_cuda{}, use_rocm{}, cuda_mem_type{};
  std::string cuda_bus_id{}, use_hl{};
  bool cuda_dma_buf = false, rocm_dma_buf = false;

  bool gbits = false, json = false, verbose = false, cpu_freq = false;
  std::string json_file{}, plot{};
  std::optional<double> min_bandwidth{}, max_p99{};
};

/// What is wrong with a command line, each option of which is right by itself: the first of its
/// contradictions, as a clause. Empty: nothing.
std::string ContradictionOf(const CommandLine& line);

/// Fills in the defaults.
///
/// @pre  ContradictionOf(line) is empty
Options Complete(const CommandLine& line, const programs::Fabric& fabric);

}  // namespace warpverbs::perf
