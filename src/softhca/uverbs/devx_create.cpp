#include "core/limits.hpp"
#include "uverbs/devx.hpp"

namespace softhca::uverbs {
namespace {

using mlx5::CommandOpcode;
using mlx5::CommandStatus;

std::unique_ptr<Object> MakeObject(Kind kind, uint32_t number) {
  auto object = std::make_unique<Object>(kind, number);
  object->devx = true;
  return object;
}

std::unique_ptr<Object> AllocPd(const Mailboxes& mail) {
  auto pd = MakeObject(Kind::kPd, mail.hca().AllocPd());
  mail.Set(mlx5::command_out::kObjectNumber, pd->number);
  return pd;
}

const UmemObject& OwnUmem(Context& context, uint32_t umem) {
  return static_cast<const UmemObject&>(context.Owned(Kind::kUmem, umem));
}

std::unique_ptr<Object> CreateCq(const Mailboxes& mail) {
  using namespace mlx5;
  const auto get = [&](auto field) { return mail.Get(field.At(create_cq_in::kCqc)); };
  const uint32_t eqn = get(cqc::kCEqn);
  CheckParameter(eqn >= limits::kFirstEqn && eqn < limits::kFirstEqn + limits::kCompletionVectors,
                 "c_eqn names no event queue of the device");
  CheckParameter(mail.Get(create_cq_in::kCqUmemValid), "cq_umem_valid is 0: the queue is in no umem");
  CheckParameter(get(cqc::kDbrUmemValid), "cqc.dbr_umem_valid is 0: the doorbell record is in no umem");
  CheckParameter(get(cqc::kCqeSz) <= 1 && get(cqc::kLogCqSize) <= limits::kLogCqDepth,
                 "the CQE size or the queue depth is out of range");
  const uint32_t ring_umem = mail.Get(create_cq_in::kCqUmemId);
  const uint32_t record_umem = get(cqc::kDbrUmemId);
  const uint64_t ring_offset = mail.Get(create_cq_in::kCqUmemOffset);
  const uint64_t record_offset = get(cqc::kDbrAddr);

  CqConfig config;
  config.log_depth = get(cqc::kLogCqSize);
  config.cqe_bytes = get(cqc::kCqeSz) == 0 ? 64 : 128;
  config.collapsed = get(cqc::kCc);
  config.ignore_overrun = get(cqc::kOi);
  config.uar_page = get(cqc::kUarPage);
  const uint64_t entries = config.collapsed ? 1 : uint64_t{1} << config.log_depth;
  config.ring = UmemMemory(mail.context, ring_umem, ring_offset, entries * config.cqe_bytes, true);
  config.dbr =
      reinterpret_cast<CqDbr*>(UmemMemory(mail.context, record_umem, record_offset, sizeof(CqDbr), false));
  config.writes_record = OwnUmem(mail.context, record_umem).writable;
  CheckAligned(config.ring, kWqebbBytes);
  CheckAligned(config.dbr, sizeof(CqDbr));
  config.umems = {ring_umem, record_umem};
  mail.context.Owned(Kind::kUar, config.uar_page);
  auto cq = MakeObject(Kind::kCq, 0);
  constexpr uint8_t kCompletion = 0x00, kCqError = 0x04;
  // Same as Linux 6.6, drivers/infiniband/hw/mlx5/devx.c, devx_cq_comp().
  config.on_completion = [object = cq.get()] { SendDevxEvent(*object, kCompletion); };
  config.on_error = [object = cq.get()] { SendDevxEvent(*object, kCqError); };
  cq->number = mail.hca().CreateCq(std::move(config));
  mail.Set(command_out::kObjectNumber, cq->number);
  return cq;
}

uint32_t ReadAccess(const Mailboxes& mail) {
  using namespace mlx5;
  const auto has = [&](auto field) { return mail.Get(field.At(create_mkey_in::kMkc)); };
  return (has(mkc::kLw) ? kAccessLocalWrite : 0u) | (has(mkc::kRw) ? kAccessRemoteWrite : 0u) |
         (has(mkc::kRr) ? kAccessRemoteRead : 0u) | (has(mkc::kA) ? kAccessRemoteAtomic : 0u);
}

std::unique_ptr<Object> CreateMkey(const Mailboxes& mail) {
  using namespace mlx5;
  constexpr uint32_t kTranslated = 1;  // access mode: pages
  const auto get = [&](auto field) { return mail.Get(field.At(create_mkey_in::kMkc)); };
  CheckParameter(get(mkc::kAccessMode10) == kTranslated && get(mkc::kAccessMode42) == 0 &&
                     !get(mkc::kLength64) && !get(mkc::kUmrEn) && !get(mkc::kFree),
                 "only memory keys of umem pages are implemented");
  Mkey mkey;
  mkey.pdn = get(mkc::kPd);
  mkey.access = ReadAccess(mail);
  mkey.iova = get(mkc::kStartAddr);
  mkey.bytes = get(mkc::kLen);
  const uint32_t umem = mail.Get(create_mkey_in::kMkeyUmemId);
  mkey.memory = UmemMemory(mail.context, umem, mail.Get(create_mkey_in::kMkeyUmemOffset), mkey.bytes,
                           (mkey.access & ~uint32_t{kAccessRemoteRead}) != 0);
  mkey.hold = mail.hca().UmemHold(umem);
  mail.context.Owned(Kind::kPd, mkey.pdn);
  auto object =
      MakeObject(Kind::kMkey, mail.hca().RegisterMemory(mkey, static_cast<uint8_t>(get(mkc::kMkey70))));
  mail.Set(command_out::kObjectNumber, object->number >> 8);
  return object;
}

constexpr CreateCommand kCreateCommands[] = {
    {CommandOpcode::kAllocPd, mlx5::kCommandHeaderBytes, mlx5::kCommandOutBytes, AllocPd},
    {CommandOpcode::kCreateCq, mlx5::create_cq_in::kBytes, mlx5::kCommandOutBytes, CreateCq},
    {CommandOpcode::kCreateMkey, mlx5::create_mkey_in::kBytes, mlx5::kCommandOutBytes, CreateMkey},
    {CommandOpcode::kCreateQp, mlx5::create_qp_in::kBytes, mlx5::kCommandOutBytes, CreateQpByDevx},
    {CommandOpcode::kCreateDct, mlx5::create_dct_in::kBytes, mlx5::kCommandOutBytes, CreateDct},
};

}  // namespace

std::span<const CreateCommand> CreateCommands() { return kCreateCommands; }

void CheckParameter(bool good, const char* why) {
  if (!good) throw CommandError(CommandStatus::kBadParameter, why);
}

void CheckAligned(const void* memory, uintptr_t alignment) {
  CheckParameter(reinterpret_cast<uintptr_t>(memory) % alignment == 0, "a queue or record is not aligned");
}

uint8_t* UmemMemory(Context& context, uint32_t umem, uint64_t offset, uint64_t bytes, bool writable) {
  CheckParameter(OwnUmem(context, umem).writable || !writable,
                 "the hardware writes there, but the umem has no local write access");
  return context.hca().UmemAddress(umem, offset, bytes);
}

}  // namespace softhca::uverbs
