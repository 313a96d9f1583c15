#include "common/fabric.hpp"

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {

Fabric::Setting Fabric::Choose(const char* option, const std::optional<int>& given,
                               const NcclEnvironment& environment, const char* variable, int value) {
  if (given) return {*given, option};
  const std::string text = environment.TextOf(variable);
  return {value, text.empty() ? "" : std::string(variable) + "=" + text};
}

Fabric::Fabric(const FabricOptions& options, const NcclEnvironment& environment)
    : nic_(options.nic),
      gid_index_(
          Choose("--gid-index", options.gid_index, environment, "NCCL_IB_GID_INDEX", environment.gid_index)),
      traffic_class_(Choose("--traffic-class", options.traffic_class, environment, "NCCL_IB_TC",
                            environment.traffic_class)),
      service_level_(Choose("--service-level", options.service_level, environment, "NCCL_IB_SL",
                            environment.service_level)) {
  const std::string filter = environment.TextOf("NCCL_IB_HCA");
  if (!nic_.empty() || filter.empty()) return;
  hca_ = environment.hca;
  ports_by_ = "NCCL_IB_HCA=" + filter;
}

bool Fabric::Allows(std::string_view nic, uint8_t port) const {
  return (nic_.empty() || nic == nic_) && hca_.Allows(nic, port);
}

NicAndPort Fabric::FirstActivePort() const {
  if (!nic_.empty()) return {nic_, 0};
  if (ports_by_.empty()) return {host::FirstActiveDevice(), 0};
  std::string others;
  for (const std::string& name : host::DeviceNames()) {
    try {
      for (const host::Port& port : host::Device(name).Ports()) {
        if (port.active && Allows(name, port.number)) return {name, port.number};
        if (port.active) others += (others.empty() ? "" : ", ") + name + ":" + std::to_string(port.number);
      }
    } catch (const host::Error&) {  // another device may do
    }
  }
  throw host::Error("use", ports_by_, "no port that it allows is active",
                    others.empty() ? "Check the cables, and that the devices open (warpverbs-doctor)"
                                   : "Set it to what is active, such as " + others + ", or unset it");
}

host::EndpointConfig Fabric::Config(uint8_t port) const {
  host::EndpointConfig config;
  config.port = port;
  config.gid_index = gid_index();
  config.path.traffic_class = static_cast<uint8_t>(traffic_class());
  config.path.service_level = static_cast<uint8_t>(service_level());
  return config;
}

std::string Fabric::Describe(const NicAndPort& where, int gid_index) const {
  const std::string nic_by = ports_by_.empty() && !nic_.empty() ? "the command line" : ports_by_;
  const std::string port = where.port == 0 ? "" : " port " + std::to_string(where.port);
  return where.nic + port + By(nic_by) + ", " +
         (gid_index < 0 ? "the best GID" : "GID " + std::to_string(gid_index)) + By(gid_index_.by) +
         ", traffic class " + std::to_string(traffic_class()) + By(traffic_class_.by) + ", service level " +
         std::to_string(service_level()) + By(service_level_.by);
}

}  // namespace warpverbs::programs
