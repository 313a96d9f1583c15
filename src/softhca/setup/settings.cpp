#include "setup/settings.hpp"

#include <nlohmann/json.hpp>

namespace softhca {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Settings, tree, block, devices, ports, link, mtu, ports_down, gids,
                                   atomics, host_order_atomics, user_index, wait, devx_events,
                                   log_max_message, interfaces, cable_local, cable_remote, addresses,
                                   raw_sockets, direct, faults, stats, stats_file, log, pcap, trace)

std::string ToText(const Settings& settings) { return nlohmann::json(settings).dump(); }

Settings FromText(const std::string& text) { return nlohmann::json::parse(text).get<Settings>(); }

}  // namespace softhca
