#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"

namespace warpverbs::programs {

Outcome CheckLoopback(const Machine& machine) {
  Findings findings;
  for (const auto& [nic, port] : ActivePorts(machine)) {
    try {
      findings.Pass(Name(*nic, *port) + ": " + machine.transfer(nic->name, port->port.number));
    } catch (const std::exception& error) {
      std::string remedy;
      const std::string found = Split(error, remedy);
      findings.Fail(Name(*nic, *port) + ": " + found, remedy);
    }
  }
  return findings.empty() ? Skip(NoPort(machine)) : findings.Sum();
}

Outcome CheckPeer(const Machine& machine) {
  if (!machine.meet_peer) return Skip("no peer is named: --listen there, and --peer HOST here");
  return {Verdict::kPass, machine.meet_peer(), ""};  // it throws where it fails
}

}  // namespace warpverbs::programs
