#include "uverbs/devx.hpp"

/// DC targets by firmware commands. CREATE_DCT makes a target that accepts requests at once.
namespace softhca::uverbs {

using namespace mlx5;  // NOLINT(google-build-using-namespace): all names below are fields

namespace {

/// The context of a DC target in the command that creates it.
struct DctContext {
  const Mailboxes& mail;

  template <class T>
  T Get(Field<T> field) const {
    return mail.Get(field.At(create_dct_in::kDctc));
  }
};

uint32_t ReadTargetAccess(const DctContext& context) {
  const bool atomics = context.Get(dctc::kRae) && context.Get(dctc::kAtomicMode) != AtomicMode::kNone;
  return (context.Get(dctc::kRwe) ? kAccessRemoteWrite : 0u) |
         (context.Get(dctc::kRre) ? kAccessRemoteRead : 0u) | (atomics ? kAccessRemoteAtomic : 0u);
}

/// Reads the part of the path to an initiator that does not depend on the initiator.
AddressPath ReadTargetPath(const DctContext& context) {
  const bool ethernet = IsEthernet(context.mail);
  AddressPath path;
  path.grh = true;
  path.local_gid_index = static_cast<uint8_t>(context.Get(dctc::kMyAddrIndex));
  path.hop_limit = static_cast<uint8_t>(context.Get(dctc::kHopLimit));
  path.traffic_class =
      static_cast<uint8_t>(ethernet ? context.Get(dctc::kDscp) << 2 : context.Get(dctc::kTclass));
  path.service_level = static_cast<uint8_t>(context.Get(dctc::kEthPrio));
  path.flow_label = context.Get(dctc::kFlowLabel);
  return path;
}

void Activate(const DctContext& context, uint32_t dctn) {
  Hca& hca = context.mail.hca();
  QpChange init;
  init.port = static_cast<uint8_t>(context.Get(dctc::kPort));
  init.pkey_index = static_cast<uint16_t>(context.Get(dctc::kPkeyIndex));
  init.access = ReadTargetAccess(context);
  hca.ModifyQp(dctn, QpState::kInit, init);
  QpChange rtr;
  rtr.path = ReadTargetPath(context);
  rtr.mtu = context.Get(dctc::kMtu);
  rtr.min_rnr_timer = static_cast<uint8_t>(context.Get(dctc::kMinRnrNak));
  hca.ModifyQp(dctn, QpState::kRtr, rtr);
}

/// Ends the target's connections. It accepts nothing until it is destroyed.
void DrainDct(const Mailboxes& mail, const Object& object) {
  QueuePair& target = *mail.hca().FindQp(object.number);
  target.dc_target.drained = true;
  if (target.config.on_event) target.config.on_event(QpEvent::kDctDrained);
}

void QueryDct(const Mailboxes& mail, const Object& object) {
  const QueuePair& target = mail.hca().Qp(object.number);
  const QpAttributes& attributes = target.attributes;
  const auto set = [&](auto field, auto value) { mail.Set(field.At(query_dct_out::kDctc), value); };
  set(dctc::kState, target.dc_target.drained ? DctState::kDrained : DctState::kActive);
  set(dctc::kUserIndex, target.config.user_index);
  set(dctc::kCqn, target.config.cqn_receive);
  set(dctc::kAtomicMode,
      (attributes.access & kAccessRemoteAtomic) != 0 ? AtomicMode::kUpTo8 : AtomicMode::kNone);
  set(dctc::kRre, (attributes.access & kAccessRemoteRead) != 0);
  set(dctc::kRwe, (attributes.access & kAccessRemoteWrite) != 0);
  set(dctc::kRae, (attributes.access & kAccessRemoteAtomic) != 0);
  set(dctc::kMinRnrNak, attributes.min_rnr_timer);
  set(dctc::kSrqnXrqn, target.config.srqn);
  set(dctc::kPd, target.config.pdn);
  set(dctc::kDcAccessKey, target.config.dc_access_key);
  set(dctc::kMtu, attributes.mtu);
  set(dctc::kPort, attributes.port);
  set(dctc::kPkeyIndex, attributes.pkey_index);
  set(dctc::kMyAddrIndex, attributes.path.local_gid_index);
  set(dctc::kHopLimit, attributes.path.hop_limit);
  set(dctc::kFlowLabel, attributes.path.flow_label);
  set(dctc::kDscp, attributes.path.traffic_class >> 2);
  set(dctc::kEthPrio, attributes.path.service_level & 7);
  set(dctc::kDcAccessKeyViolationCount, target.dc_target.key_violations);
}

constexpr ObjectCommand kTargetModifies[] = {
    {CommandOpcode::kDrainDct, kCommandHeaderBytes, kCommandOutBytes, DrainDct},
};

constexpr ObjectCommand kTargetQueries[] = {
    {CommandOpcode::kQueryDct, kCommandHeaderBytes, query_dct_out::kBytes, QueryDct},
};

}  // namespace

std::unique_ptr<Object> CreateDct(const Mailboxes& mail) {
  const DctContext context{mail};
  QpConfig config;
  config.service = ServiceType::kDct;
  config.pdn = context.Get(dctc::kPd);
  config.user_index = context.Get(dctc::kUserIndex);
  config.cqn_receive = context.Get(dctc::kCqn);
  config.srqn = context.Get(dctc::kSrqnXrqn);
  config.dc_access_key = context.Get(dctc::kDcAccessKey);
  mail.context.Owned(Kind::kPd, config.pdn);
  mail.context.Owned(Kind::kCq, config.cqn_receive);
  mail.context.Owned(Kind::kSrq, config.srqn);
  auto object = std::make_unique<Object>(Kind::kQp, 0);
  object->devx = true;
  config.on_event = [dct = object.get()](QpEvent event) { SendDevxEvent(*dct, static_cast<uint8_t>(event)); };
  object->number = mail.hca().CreateQp(std::move(config));
  try {
    Activate(context, object->number);
  } catch (...) {
    mail.hca().DestroyQp(object->number);
    throw;
  }
  mail.Set(command_out::kObjectNumber, object->number);
  return object;
}

std::span<const ObjectCommand> ModifyDctCommands() { return kTargetModifies; }
std::span<const ObjectCommand> QueryDctCommands() { return kTargetQueries; }

}  // namespace softhca::uverbs
