#include "faults/faulty_network.hpp"

#include <algorithm>

namespace softhca {

FaultyNetwork::FaultyNetwork(std::unique_ptr<Network> network, FaultPlan plan,
                             const std::vector<Hca*>& devices, uint64_t start_ns, std::function<void()> kill)
    : network_(std::move(network)), plan_(std::move(plan)) {
  for (const LinkFault& fault : plan_.links) ScheduleLink(fault, devices, start_ns);
  if (plan_.kill_after_ns) incidents_.emplace(start_ns + *plan_.kill_after_ns, std::move(kill));
  RunDue(start_ns);
}

void FaultyNetwork::ScheduleLink(const LinkFault& fault, const std::vector<Hca*>& devices,
                                 uint64_t start_ns) {
  for (Hca* const hca : devices) {
    for (uint32_t number = 1; number <= hca->config().ports.size(); ++number) {
      const auto port = static_cast<uint8_t>(number);
      if (!fault.port.empty() && fault.port != PortName(hca->config(), port)) continue;
      const uint64_t down_ns = start_ns + fault.after_ns;
      incidents_.emplace(down_ns, [hca, port] { hca->SetLink(port, false); });
      if (fault.for_ns)
        incidents_.emplace(down_ns + *fault.for_ns, [hca, port] { hca->SetLink(port, true); });
    }
  }
}

bool FaultyNetwork::Run(QueuePair& qp, uint64_t now_ns) {
  if (!plan_.syndromes.empty() && marked_.emplace(qp.hca, qp.qpn).second) {
    for (const SyndromeFault& fault : plan_.syndromes) {
      if (fault.qpn.value_or(qp.qpn) == qp.qpn)
        qp.injected_failures[fault.index] = {fault.syndrome, fault.vendor_syndrome};
    }
  }
  return network_->Run(qp, now_ns);
}

bool FaultyNetwork::RunDue(uint64_t now_ns) {
  bool happened = false;
  while (!incidents_.empty() && incidents_.begin()->first <= now_ns) {
    const auto due = incidents_.extract(incidents_.begin());
    due.mapped()();
    happened = true;
  }
  return happened;
}

bool FaultyNetwork::Poll(uint64_t now_ns) {
  const bool happened = RunDue(now_ns);
  return network_->Poll(now_ns) || happened;
}

uint64_t FaultyNetwork::NextNs() const {
  const uint64_t incident = incidents_.empty() ? UINT64_MAX : incidents_.begin()->first;
  return std::min(network_->NextNs(), incident);
}

}  // namespace softhca
