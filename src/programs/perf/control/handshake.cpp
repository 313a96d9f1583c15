#include "perf/control/handshake.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "warpverbs/host/exchange.hpp"

namespace warpverbs::perf {
namespace {

constexpr char kProgram[] = "warpverbs-perf";
constexpr int kProtocol = 3;

std::string ToString(double value) {
  std::string text = Json(value).dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

/// Returns the options that must be equal on both sides, by their names on the command line.
Json CommonOptions(const Options& options) {
  const bool one_size = options.sizes.size() == 1;
  return {{"--test", ToString(options.verb)},
          {"--measure", ToString(options.measure)},
          {"-a", options.all_sizes ? "on" : "off"},
          {"-s", one_size ? std::to_string(options.sizes.front()) : "all"},
          {"-n", std::to_string(options.iterations)},
          {"-D", ToString(options.duration_s)},
          {"-b", options.bidirectional ? "on" : "off"},
          {"-q", std::to_string(options.qps)},
          {"-R", options.rdma_cm ? "on" : "off"},
          {"--perform_warm_up", options.warm_up ? "on" : "off"},
          {"--data_validation", options.data_validation ? "on" : "off"},
          {"the messages of a round (--scope, --posters, -l)",  // rounds consist of whole calls on both sides
           options.bidirectional && !options.posting.single_thread()
               ? std::to_string(options.posting.messages_per_round())
               : "1"}};
}

}  // namespace

void ExchangeVersions(ControlChannel& control) {
  const Json answer =
      control.Swap({{"program", kProgram}, {"protocol", kProtocol}, {"version", WARPVERBS_PROGRAMS_VERSION}},
                   "its version");
  const auto program = Get<std::string>(answer, "program");
  const int protocol = Get<int>(answer, "protocol");
  if (program == kProgram && protocol == kProtocol) return;
  throw std::runtime_error("The peer is " + host::PrintableText(program, 40) + " with protocol " +
                           std::to_string(protocol) + ", not " + kProgram + " with protocol " +
                           std::to_string(kProtocol) + ". Run the same version on both sides.");
}

size_t ExchangeOptions(ControlChannel& control, const Options& options) {
  const Json mine = CommonOptions(options);
  const Json answer =
      control.Swap({{"options", mine}, {"initiators", options.initiators.size()}}, "its options");
  const auto theirs = Get<Json>(answer, "options");
  for (const auto& [name, value] : mine.items()) {
    const auto here = value.get<std::string>();
    const auto there = Get<std::string>(theirs, name.c_str());
    if (there == here) continue;
    throw std::runtime_error("The sides differ in " + name + ": " + here + " here, " +
                             host::PrintableText(there, 40) + " at the peer. Give both sides the same.");
  }
  return std::max(options.initiators.size(), std::min<size_t>(Get<size_t>(answer, "initiators"), 2));
}

Alignment ExchangeAlignment(ControlChannel& control) {
  const Alignment plain;
  const long page = sysconf(_SC_PAGESIZE), line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  const uint64_t page_bytes = page > 0 ? static_cast<uint64_t>(page) : plain.page_bytes;
  const uint64_t line_bytes = line > 0 ? static_cast<uint64_t>(line) : plain.line_bytes;
  const Json answer =
      control.Swap({{"page", page_bytes}, {"line", line_bytes}}, "its page and cache line sizes");
  constexpr uint64_t kMax = uint64_t{1} << 24;
  const auto larger = [&](uint64_t mine, const char* field) {
    return std::max(mine, std::min(Get<uint64_t>(answer, field), kMax));
  };
  return {larger(page_bytes, "page"), larger(line_bytes, "line")};
}

uint32_t CheckMtu(ControlChannel& control, const Options& options, const host::Port& port) {
  const uint32_t mine = host::Bytes(port.active_mtu);
  const uint32_t common = std::min(mine, Get<uint32_t>(control.Swap({{"mtu", mine}}, "its MTU"), "mtu"));
  if (options.mtu <= common) return options.mtu != 0 ? options.mtu : common;
  throw std::runtime_error("Cannot use an MTU of " + std::to_string(options.mtu) +
                           " (-m): the ports support " + std::to_string(common) +
                           ". Use a smaller -m, or raise the MTU of the network.");
}

}  // namespace warpverbs::perf
