#include "common/device_selection.hpp"

#include <infiniband/verbs.h>

#include <fstream>

#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {
namespace {

std::string From(const std::string& source) { return source.empty() ? "" : " (from " + source + ")"; }

}  // namespace

DeviceSelection::Setting DeviceSelection::Choose(const char* option, const std::optional<int>& given,
                                                 const NcclEnvironment& environment, const char* variable,
                                                 int value) {
  if (given) return {*given, option};
  const std::string text = environment.Text(variable);
  return {value, text.empty() ? "" : std::string(variable) + "=" + text};
}

DeviceSelection::DeviceSelection(const DeviceOptions& options, const NcclEnvironment& environment)
    : nic_(options.nic),
      gid_index_(
          Choose("--gid-index", options.gid_index, environment, "NCCL_IB_GID_INDEX", environment.gid_index)),
      traffic_class_(Choose("--traffic-class", options.traffic_class, environment, "NCCL_IB_TC",
                            environment.traffic_class)),
      service_level_(Choose("--service-level", options.service_level, environment, "NCCL_IB_SL",
                            environment.service_level)) {
  const std::string filter = environment.Text("NCCL_IB_HCA");
  if (!nic_.empty() || filter.empty()) return;
  hca_ = environment.hca;
  filter_ = "NCCL_IB_HCA=" + filter;
}

bool DeviceSelection::Allows(std::string_view nic, uint8_t port) const {
  return (nic_.empty() || nic == nic_) && hca_.Allows(nic, port);
}

NicAndPort DeviceSelection::FirstActivePort() const {
  if (!nic_.empty()) return {nic_, 0};
  if (filter_.empty()) return {host::FirstActiveDevice(), 0};
  std::string others;
  for (const std::string& name : host::DeviceNames()) {
    try {
      for (const host::Port& port : host::Device(name).Ports()) {
        if (port.active && Allows(name, port.number)) return {name, port.number};
        if (port.active) others += (others.empty() ? "" : ", ") + name + ":" + std::to_string(port.number);
      }
    } catch (const host::Error&) {  // another device may open
    }
  }
  throw host::Error("use", filter_, "it allows no active port",
                    others.empty() ? "Check the cables, and run warpverbs-doctor to see why no port is active"
                                   : "Set it to an active port, such as " + others + ", or unset it");
}

host::EndpointConfig DeviceSelection::Config(uint8_t port) const {
  host::EndpointConfig config;
  config.port = port;
  config.gid_index = gid_index();
  config.path.traffic_class = static_cast<uint8_t>(traffic_class());
  config.path.service_level = static_cast<uint8_t>(service_level());
  return config;
}

std::string DeviceSelection::Describe(const NicAndPort& where, int gid_index) const {
  const std::string nic_source = filter_.empty() && !nic_.empty() ? "the command line" : filter_;
  const std::string port = where.port == 0 ? "" : " port " + std::to_string(where.port);
  return where.nic + port + From(nic_source) + ", " +
         (gid_index < 0 ? "the best GID" : "GID " + std::to_string(gid_index)) + From(gid_index_.source) +
         ", traffic class " + std::to_string(traffic_class()) + From(traffic_class_.source) +
         ", service level " + std::to_string(service_level()) + From(service_level_.source);
}

std::string BoardOf(const host::Device& device) {
  std::string board;
  std::ifstream(std::string(device.context()->device->ibdev_path) + "/board_id") >> board;
  return board;
}

}  // namespace warpverbs::programs
