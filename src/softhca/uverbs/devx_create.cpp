#include <cstring>
#include <optional>

#include "core/data_segment.hpp"
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

/// Fills a key of the pages of a umem.
void FillTranslated(const Mailboxes& mail, Mkey& mkey) {
  using namespace mlx5;
  const uint32_t umem = mail.Get(create_mkey_in::kMkeyUmemId);
  mkey.memory = UmemMemory(mail.context, umem, mail.Get(create_mkey_in::kMkeyUmemOffset), mkey.bytes,
                           (mkey.access & ~uint32_t{kAccessRemoteRead}) != 0);
  mkey.hold = mail.hca().UmemHold(umem);
}

/// Reads the pieces of an indirect key. They follow the command.
///
/// @param entity_bytes  size of each piece; none: each has its own
Layout ReadLayout(const Mailboxes& mail, std::optional<uint64_t> entity_bytes) {
  using namespace mlx5;
  const uint32_t count = mail.Get(mkc::kTranslationsOctwordSize.At(create_mkey_in::kMkc));
  const auto list = std::as_bytes(mail.in.subspan(create_mkey_in::kBytes / sizeof(Be32)));
  CheckParameter(count != 0 && count <= mail.Get(create_mkey_in::kTranslationsOctwordActualSize) &&
                     count <= list.size() / sizeof(KlmSegment),
                 "translations_octword_size is 0, or exceeds the list in the command");
  Layout layout;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    KlmSegment klm;
    std::memcpy(&klm, list.data() + i * sizeof klm, sizeof klm);
    Layout::Piece piece = PieceOf(klm);
    piece.bytes = entity_bytes.value_or(piece.bytes);
    bytes += piece.bytes;
    CheckParameter(mail.hca().mkeys().Find(piece.key) != nullptr, "a piece is in no memory region");
    layout.pieces.push_back(piece);
  }
  CheckParameter(mail.Get(mkc::kLen.At(create_mkey_in::kMkc)) <= bytes,
                 "the length exceeds the key's pieces");
  return layout;
}

/// Fills an indirect key, whose pieces have one size (KSM) or sizes of their own (KLM). One that work
/// requests may change starts without pieces, unless the command has a list.
///
/// @source  openucx/ucx v1.13.1, src/uct/ib/mlx5/dv/ib_mlx5dv_md.c, uct_ib_mlx5_devx_reg_ksm(): offset 0 of
///          the key is the start of its first piece; rdma-core v44, providers/mlx5/verbs.c,
///          _mlx5dv_create_mkey()
void FillIndirect(const Mailboxes& mail, bool one_size, Mkey& mkey) {
  using namespace mlx5;
  constexpr uint32_t kMostRoom = 1 << 16;
  const auto get = [&](auto field) { return mail.Get(field.At(create_mkey_in::kMkc)); };
  std::optional<uint64_t> entity_bytes;
  if (one_size) entity_bytes = uint64_t{1} << get(mkc::kLogPageSize);
  const bool changes = get(mkc::kUmrEn);
  CheckParameter(!(changes && one_size), "work requests cannot change a KSM key");
  const bool empty = changes && mail.Get(create_mkey_in::kTranslationsOctwordActualSize) == 0;
  mkey.layout = empty ? Layout{} : ReadLayout(mail, entity_bytes);
  mkey.layout_room = changes ? get(mkc::kTranslationsOctwordSize) : 0;
  CheckParameter(mkey.layout_room <= kMostRoom, "translations_octword_size is too large");
  mkey.free = get(mkc::kFree);
  mkey.revocable = get(mkc::kEnRinval);
}

std::unique_ptr<Object> CreateMkey(const Mailboxes& mail) {
  using namespace mlx5;
  constexpr uint32_t kTranslated = 1, kKsm = 3;  // access modes; 2 is KLM
  const auto get = [&](auto field) { return mail.Get(field.At(create_mkey_in::kMkc)); };
  const uint32_t mode = get(mkc::kAccessMode10);
  CheckParameter(mode >= kTranslated && get(mkc::kAccessMode42) == 0 && !get(mkc::kLength64),
                 "only memory keys of umem pages and indirect keys are implemented");
  CheckParameter(mode != kTranslated || (!get(mkc::kUmrEn) && !get(mkc::kFree)),
                 "work requests cannot change a memory key of umem pages");
  Mkey mkey;
  mkey.pdn = get(mkc::kPd);
  mkey.access = ReadAccess(mail);
  mkey.iova = get(mkc::kStartAddr);
  mkey.bytes = get(mkc::kLen);
  mail.context.Owned(Kind::kPd, mkey.pdn);
  if (mode == kTranslated) {
    FillTranslated(mail, mkey);
  } else {
    FillIndirect(mail, mode == kKsm, mkey);
  }
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
