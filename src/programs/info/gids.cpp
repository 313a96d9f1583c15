#include "info/report.hpp"

namespace warpverbs::programs {
namespace {

std::string Reach(const host::GidEntry& entry) {
  if (host::IsLinkLocal(entry.gid)) return "link-local: not routed";
  return host::IsIpv4Mapped(entry.gid) ? "IPv4, routed in most networks" : "routable";
}

/// Returns why an entry is not the best one.
std::string Fault(const host::GidEntry& entry, const host::GidEntry& best) {
  if (Score(entry) == Score(best)) return "as good as the best, but later in the table";
  if (entry.type != best.type) return std::string(ToString(entry.type)) + ": dropped by routers";
  return Reach(entry);
}

}  // namespace

std::vector<GidChoice> ExplainGids(const PortInfo& port, const DeviceSelection& selection) {
  std::vector<GidChoice> choices;
  const host::GidEntry* const best = host::BestGid(port.gids);
  for (const host::GidEntry& entry : port.gids) {
    const bool requested = static_cast<int>(entry.index) == selection.gid_index();
    const bool chosen = requested || (&entry == best && selection.gid_index() < 0);
    const std::string worth = &entry == best ? "the best: " + Reach(entry) : Fault(entry, *best);
    const std::string why = requested ? "requested; " + worth : worth;
    choices.push_back({.entry = entry, .score = Score(entry), .chosen = chosen, .why = why});
  }
  return choices;
}

}  // namespace warpverbs::programs
