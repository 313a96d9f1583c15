#include "info/report.hpp"

namespace warpverbs::programs {
namespace {

std::string Reach(const host::GidEntry& entry) {
  if (host::IsLinkLocal(entry.gid)) return "link-local, which no router forwards";
  return host::IsIpv4Mapped(entry.gid) ? "IPv4, which data centres route" : "routable";
}

/// Why an entry is not the best one.
std::string Fault(const host::GidEntry& entry, const host::GidEntry& best) {
  if (Score(entry) == Score(best)) return "as good, but later in the table";
  if (entry.type != best.type) return "routers drop " + std::string(ToString(entry.type));
  return Reach(entry);
}

}  // namespace

std::vector<GidChoice> ExplainGids(const NicPort& port, const Fabric& fabric) {
  std::vector<GidChoice> choices;
  const host::GidEntry* const best = host::BestGid(port.gids);
  for (const host::GidEntry& entry : port.gids) {
    const bool asked = static_cast<int>(entry.index) == fabric.gid_index();
    const bool chosen = asked || (&entry == best && fabric.gid_index() < 0);
    const std::string worth = &entry == best ? "the best: " + Reach(entry) : Fault(entry, *best);
    const std::string why = asked ? "asked for; " + worth : worth;
    choices.push_back({.entry = entry, .score = Score(entry), .chosen = chosen, .why = why});
  }
  return choices;
}

}  // namespace warpverbs::programs
