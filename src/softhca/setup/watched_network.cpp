#include "setup/watched_network.hpp"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "core/pacing.hpp"
#include "faults/faulty_medium.hpp"
#include "faults/faulty_network.hpp"
#include "observe/capturing_medium.hpp"

namespace softhca::uverbs {

WireOptions WithFaultsAndCapture(WireOptions options, const Settings& settings,
                                 const std::vector<Hca*>& devices) {
  using OpenMedium = std::function<std::unique_ptr<Medium>()>;
  if (!settings.pcap.empty()) {
    auto writer = std::make_shared<PcapWriter>(settings.pcap);
    options.direct = false;
    options.open_medium = [open = OpenMedium(std::move(options.open_medium)), writer,
                           macs = MacsOf(devices)] {
      return std::make_unique<CapturingMedium>(open(), writer, macs);
    };
  }
  if (const FaultPlan plan = ParseFaults(settings.faults); plan.ConcernsFrames()) {
    options.direct = false;
    options.open_medium = [open = OpenMedium(std::move(options.open_medium)), plan] {
      return std::make_unique<FaultyMedium>(open(), plan, std::make_shared<FaultDice>(plan), NowNs);
    };
  }
  return options;
}

std::unique_ptr<Network> WithIncidents(std::unique_ptr<Network> network, const Settings& settings,
                                       const std::vector<Hca*>& devices) {
  FaultPlan plan = ParseFaults(settings.faults);
  if (plan.links.empty() && plan.syndromes.empty() && !plan.kill_after_ns) return network;
  return std::make_unique<FaultyNetwork>(std::move(network), std::move(plan), devices, NowNs(),
                                         [] { kill(getpid(), SIGKILL); });
}

}  // namespace softhca::uverbs
