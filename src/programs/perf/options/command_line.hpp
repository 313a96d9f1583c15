#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/command_line.hpp"
#include "perf/options/options.hpp"

namespace warpverbs::perf {

/// Parses a command line. The order of its options makes no difference.
///
/// @return  options that are consistent with each other, or the text to print instead of running
std::variant<Options, programs::EarlyExit> ParseOptions(int argc, const char* const* argv);

/// A command line as written. An option that was not given is empty.
struct CommandLine {
  std::string test = "write", measure = "bandwidth", atomic_type{};
  std::vector<std::string> words{};  ///< the server's host, or the files to plot
  programs::DeviceOptions device{};
  std::optional<int> tcp_port{}, nic_port{}, mtu{}, ack_timeout{}, retry_count{}, hop_limit{}, pkey_index{};
  bool rdma_cm = false;

  std::optional<uint64_t> size{};
  bool all = false;
  std::optional<uint32_t> iterations{}, tx_depth{}, rx_depth{}, cq_mod{}, qps{}, inline_bytes{};
  std::optional<double> duration{}, margin{};
  bool bidirectional = false, no_peak = false, warm_up = false, data_validation = false;
  std::optional<int> timeout_s{};

  std::string connection{}, initiator{}, scope{}, sharing{}, placement{};
  std::optional<uint32_t> posters{}, batch{};

  std::optional<int> use_cuda{}, use_rocm{}, cuda_mem_type{};
  std::string cuda_bus_id{}, use_hl{};
  bool cuda_dma_buf = false, cuda_over_pcie = false, rocm_dma_buf = false;

  bool gbits = false, json = false, verbose = false, cpu_freq = false;
  std::string json_file{}, plot{};
  std::optional<double> min_bandwidth{}, max_p99{};
};

/// Returns the first contradiction between options that are each valid, as a clause; "" if there is none.
std::string FindContradiction(const CommandLine& line);

/// Fills in the defaults.
///
/// @pre  FindContradiction(line) is empty
Options Complete(const CommandLine& line, const programs::DeviceSelection& selection);

}  // namespace warpverbs::perf
