#include "soak/rounds/plan.hpp"

#include "soak/rounds/random.hpp"

namespace soak {
namespace {

using std::chrono::milliseconds;

RoundKind KindOf(Random& random) {
  const uint64_t of_hundred = random.Below(100);
  if (of_hundred < 40) return RoundKind::kEndpoints;
  if (of_hundred < 60) return RoundKind::kLives;
  if (of_hundred < 85) return RoundKind::kTransports;
  return of_hundred < 95 ? RoundKind::kPrograms : RoundKind::kVerbs;
}

void AddFault(RoundPlan& plan, const std::string& fault) {
  for (auto& options : plan.softhca) {
    options.emplace_back("--fault");
    options.push_back(fault);
  }
}

/// Adds faults of frames, few enough for seven retries to mend.
void AddFrameFaults(RoundPlan& plan, Random& random) {
  AddFault(plan, "seed:" + std::to_string(random.Between(1, 1000000)));
  for (const std::string kind : {"drop", "duplicate", "reorder", "corrupt"}) {
    if (random.Chance(60)) AddFault(plan, kind + ":" + std::to_string(random.Between(1, 3)) + "%");
  }
  if (random.Chance(40)) {
    AddFault(plan, "delay:" + std::to_string(random.Between(1, 5)) +
                       "%,by=" + std::to_string(random.Between(50, 3000)) + "us");
  }
}

/// Adds what observes the NIC, which may neither change results nor stop it.
void AddObservers(RoundPlan& plan, Random& random) {
  for (auto& options : plan.softhca) {
    if (random.Chance(15)) options.emplace_back("--log=trace,log.%p");
    if (random.Chance(10)) options.emplace_back("--stats=stats.%p");
    if (random.Chance(10)) options.emplace_back("--pcap=pcap.%p");
    if (random.Chance(10)) options.emplace_back("--trace=trace.%p");
  }
}

LimitPlan LimitsOf(Random& random) {
  LimitPlan limits;
  switch (random.Below(4)) {
    case 0:
      limits.files = random.Between(1, 40);
      break;
    case 1:
      limits.file_bytes = random.Pick({uint64_t{32} << 10, uint64_t{64} << 10, uint64_t{1} << 20});
      break;
    case 2:
      limits.memory_bytes = uint64_t{random.Between(1, 160)} << 20;
      break;
    default:
      limits.locked_bytes = random.Pick({uint64_t{4096}, uint64_t{64} << 10, uint64_t{1} << 20});
  }
  return limits;
}

void AddTrouble(RoundPlan& plan, Random& random) {
  const auto after = milliseconds(random.Between(20, 3000));
  const auto side = static_cast<uint32_t>(random.Below(2));
  const uint64_t of_hundred = random.Below(100);
  if (of_hundred < 20) {
    plan.disruptions.push_back({Disruption::Act::kKillProgram, side, after, {}});
  } else if (of_hundred < 25) {
    plan.disruptions.push_back({Disruption::Act::kKillLauncher, side, after, {}});
  } else if (of_hundred < 40) {
    plan.disruptions.push_back(
        {Disruption::Act::kStop, side, after, milliseconds(random.Between(1000, 15000))});
  } else if (of_hundred < 60) {
    plan.limits[side] = LimitsOf(random);
  } else if (of_hundred < 64) {
    plan.link_fails = true;
    AddFault(plan, "link-down,after=" + std::to_string(random.Between(50, 2000)) +
                       "ms,for=" + std::to_string(random.Between(10, 12000)) + "ms");
  }
}

/// Plans two command lines of warpverbs-perf that fit each other.
void AddPrograms(RoundPlan& plan, Random& random) {
  std::vector<std::string> options = {"--timeout", "60"};
  const bool latency = random.Chance(40);
  options.insert(options.end(), {"--test", random.Pick({"write", "read", "send"})});
  options.insert(options.end(), {"--measure", latency ? "latency" : "bandwidth"});
  options.insert(options.end(), {"-s", std::to_string(uint64_t{1} << random.Between(1, 16))});
  options.insert(options.end(), {"-n", std::to_string(random.Between(5, 300))});
  if (!latency && random.Chance(30)) options.emplace_back("-b");
  if (!latency && random.Chance(30))
    options.insert(options.end(), {"-q", std::to_string(random.Between(1, 4))});
  for (auto& line : plan.program) {
    line.emplace_back("warpverbs-perf");
    line.insert(line.end(), options.begin(), options.end());
  }
  plan.program[0].insert(plan.program[0].end(), {"-p", "0"});
  plan.program[1].insert(plan.program[1].end(), {"-p", "#", "localhost"});
}

}  // namespace

RoundPlan PlanOf(uint64_t seed, uint64_t round) {
  Random random(SeedOf(seed, round));
  RoundPlan plan{};
  plan.seed = random.Fork();
  plan.kind = KindOf(random);
  const bool by_chaos = plan.kind != RoundKind::kPrograms && plan.kind != RoundKind::kVerbs;
  plan.processes = plan.kind == RoundKind::kVerbs || (by_chaos && random.Chance(25)) ? 1 : 2;
  plan.lives = plan.kind == RoundKind::kLives ? random.Between(10, 60) : random.Between(1, 4);
  if (random.Chance(plan.kind == RoundKind::kVerbs ? 100 : 45)) {
    AddFrameFaults(plan, random);
  } else if (plan.processes == 1 && random.Chance(40)) {
    plan.softhca[0].emplace_back("--no-direct");
  }
  AddObservers(plan, random);
  if (plan.kind == RoundKind::kTransports) {
    for (auto& options : plan.softhca) {
      if (random.Chance(60)) options.emplace_back("--devx-events");
      if (random.Chance(25)) options.insert(options.end(), {"--devices", "2"});
    }
  }
  if (plan.kind == RoundKind::kPrograms) AddPrograms(plan, random);
  if (plan.kind == RoundKind::kVerbs)
    plan.program[0] = {"soak", "--seconds", "2", "--seed", std::to_string(random.Below(1u << 30))};
  if (by_chaos) {
    AddTrouble(plan, random);
    plan.misbehaves = random.Chance(35);
    plan.forks = random.Chance(25);
  }
  if (plan.processes == 1) {  // all of it happens to the one process
    for (Disruption& disruption : plan.disruptions) disruption.side = 0;
    if (plan.limits[1].any()) plan.limits[0] = plan.limits[1];
    plan.limits[1] = plan.limits[0];
  }
  return plan;
}

const char* ToString(RoundKind kind) {
  switch (kind) {
    case RoundKind::kEndpoints:
      return "endpoints";
    case RoundKind::kLives:
      return "lives";
    case RoundKind::kTransports:
      return "transports";
    case RoundKind::kPrograms:
      return "programs";
    case RoundKind::kVerbs:
      return "verbs";
  }
  return "";
}

std::string RoundPlan::Describe() const {
  std::string text = std::string(ToString(kind)) + ", " + std::to_string(processes) + " process" +
                     (processes == 1 ? "" : "es") + ", " + std::to_string(lives) + " lives";
  if (misbehaves) text += ", misbehaves";
  if (forks) text += ", forks";
  for (uint32_t side = 0; side < processes; ++side) {
    text += "; side " + std::to_string(side) + ":";
    for (const std::string& word : softhca[side]) text += " " + word;
    for (const std::string& word : program[side]) text += " " + word;
    const LimitPlan& limit = limits[side];
    if (limit.files != 0) text += " files+" + std::to_string(limit.files);
    if (limit.file_bytes != 0) text += " file size " + std::to_string(limit.file_bytes);
    if (limit.memory_bytes != 0) text += " memory+" + std::to_string(limit.memory_bytes >> 20) + "MiB";
    if (limit.locked_bytes != 0) text += " locked " + std::to_string(limit.locked_bytes);
  }
  for (const Disruption& disruption : disruptions) {
    constexpr const char* kActs[] = {"kill of the program", "kill of the launcher", "stop"};
    text += std::string("; ") + kActs[static_cast<size_t>(disruption.act)] + " of side " +
            std::to_string(disruption.side) + " after " + std::to_string(disruption.after.count()) + " ms";
    if (disruption.act == Disruption::Act::kStop)
      text += " for " + std::to_string(disruption.pause.count()) + " ms";
  }
  return text;
}

}  // namespace soak
