#include "faults/fault_plan.hpp"

#include <stdexcept>
#include <utility>

#include "faults/rule_text.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

constexpr uint32_t kMaxQpn = 0xffffff;
constexpr uint64_t kReorderLimitNs = 1'000'000;

std::optional<uint8_t> FindOpcode(const std::string& name) {
  for (const PacketService service : {PacketService::kRc, PacketService::kUc, PacketService::kUd,
                                      PacketService::kXrc, PacketService::kVendor, PacketService::kDc}) {
    for (uint8_t op = 0; op < 32; ++op) {
      if (name == ToString(service, static_cast<PacketOp>(op)))
        return static_cast<uint8_t>(static_cast<uint8_t>(service) << 5 | op);
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> TakeQpn(RuleText& rule) {
  const auto qpn = rule.TakeNumber("qp", kMaxQpn);
  return qpn ? std::optional(static_cast<uint32_t>(*qpn)) : std::nullopt;
}

uint64_t Require(const RuleText& rule, std::optional<uint64_t> value, const char* example) {
  if (!value) rule.Refuse(std::string("a time is missing; write ") + example);
  return *value;
}

FrameFault ParseFrameFault(RuleText& rule, FrameFault::Kind kind) {
  FrameFault fault{.kind = kind};
  if (const auto percentage = rule.Value()) fault.probability = rule.Percentage(*percentage);
  const bool sent = rule.Flag("sent");
  if (rule.Flag("received")) {
    if (sent) rule.Refuse("sent and received exclude each other; write two rules");
    fault.direction = Direction::kReceived;
  }
  if (const auto name = rule.Take("op")) {
    fault.opcode = FindOpcode(*name);
    if (!fault.opcode)
      rule.Refuse("'" + *name + "' is not a packet type; use a name such as WRITE_MIDDLE or UD_SEND_ONLY");
  }
  fault.qpn = TakeQpn(rule);
  if (const auto nth = rule.TakeNumber("nth", UINT64_MAX)) {
    if (*nth == 0) rule.Refuse("nth counts from 1");
    fault.nth = *nth;
  }
  if (kind == FrameFault::Kind::kDelay)
    fault.by_ns = Require(rule, rule.TakeTimeNs("by"), "delay:10%,by=200us");
  if (kind == FrameFault::Kind::kReorder) fault.by_ns = rule.TakeTimeNs("by").value_or(kReorderLimitNs);
  return fault;
}

SyndromeFault ParseSyndrome(RuleText& rule) {
  constexpr const char* kExample = "a syndrome or an index is missing; write syndrome:0x13,index=3";
  SyndromeFault fault;
  const auto syndrome = rule.Value();
  if (!syndrome) rule.Refuse(kExample);
  fault.syndrome = static_cast<mlx5::Syndrome>(rule.Number(*syndrome, UINT8_MAX));
  if (fault.syndrome == mlx5::Syndrome::kNone) rule.Refuse("syndrome 0 is success");
  fault.qpn = TakeQpn(rule);
  const auto index = rule.TakeNumber("index", UINT16_MAX);
  if (!index) rule.Refuse(kExample);
  fault.index = static_cast<uint16_t>(*index);
  fault.vendor_syndrome = static_cast<uint8_t>(rule.TakeNumber("vendor", UINT8_MAX).value_or(0));
  return fault;
}

LinkFault ParseLinkFault(RuleText& rule) {
  LinkFault fault;
  fault.port = rule.Take("port").value_or("");
  fault.after_ns = rule.TakeTimeNs("after").value_or(0);
  fault.for_ns = rule.TakeTimeNs("for");
  return fault;
}

uint64_t ParseSeed(RuleText& rule) {
  const auto seed = rule.Value();
  if (!seed) rule.Refuse("a number is missing; write seed:7");
  return rule.Number(*seed, UINT64_MAX);
}

void Add(FaultPlan& plan, RuleText& rule) {
  using Kind = FrameFault::Kind;
  constexpr std::pair<const char*, Kind> kFrameFaults[] = {
      {"drop", Kind::kDrop},       {"duplicate", Kind::kDuplicate}, {"reorder", Kind::kReorder},
      {"corrupt", Kind::kCorrupt}, {"flip", Kind::kFlip},           {"delay", Kind::kDelay}};
  for (const auto& [name, kind] : kFrameFaults) {
    if (rule.kind() == name) return plan.frames.push_back(ParseFrameFault(rule, kind));
  }
  if (rule.kind() == "slow") {
    plan.slow_ns = Require(rule, rule.TakeTimeNs("every"), "slow,every=50us");
  } else if (rule.kind() == "link-down") {
    plan.links.push_back(ParseLinkFault(rule));
  } else if (rule.kind() == "syndrome") {
    plan.syndromes.push_back(ParseSyndrome(rule));
  } else if (rule.kind() == "kill") {
    plan.kill_after_ns = Require(rule, rule.TakeTimeNs("after"), "kill,after=1s");
  } else if (rule.kind() == "seed") {
    plan.seed = ParseSeed(rule);
  } else {
    rule.Refuse("'" + rule.kind() +
                "' is not a fault; use drop, duplicate, reorder, corrupt, flip, delay, slow, link-down, "
                "syndrome, kill or "
                "seed");
  }
}

}  // namespace

FaultPlan ParseFaults(std::span<const std::string> rules) {
  FaultPlan plan;
  for (const std::string& text : rules) {
    RuleText rule(text);
    Add(plan, rule);
    rule.End();
  }
  return plan;
}

std::string PortName(const DeviceConfig& device, size_t port) {
  return device.name + "/" + std::to_string(port);
}

void CheckPorts(const FaultPlan& plan, std::span<const DeviceConfig> devices) {
  for (const LinkFault& fault : plan.links) {
    bool found = fault.port.empty();
    for (const DeviceConfig& device : devices) {
      for (size_t port = 1; port <= device.ports.size(); ++port)
        found |= fault.port == PortName(device, port);
    }
    if (!found) {
      throw std::invalid_argument("--fault link-down: port '" + fault.port +
                                  "' does not exist; write a port as " + PortName(devices.front(), 1));
    }
  }
}

}  // namespace softhca
