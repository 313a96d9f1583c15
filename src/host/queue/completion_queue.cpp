#include "queue/completion_queue.hpp"

#include <bit>
#include <cstring>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using CreateCqMailbox = mlx5::Mailbox<mlx5::create_cq_in::kBytes>;

/// Returns the event queue of completion vector 0. The firmware requires one even if no events are requested.
uint32_t EventQueue(ibv_context* context) {
  uint32_t eqn = 0;
  if (const int error = mlx5dv_devx_query_eqn(context, 0, &eqn)) {
    throw Error::FromErrno("find", std::string("an event queue of ") + context->device->name, error,
                           "Check that the kernel's mlx5_ib module offers DEVX");
  }
  return eqn;
}

CreateCqMailbox CreateCommand(ibv_context* context, const CompletionQueueConfig& config) {
  namespace in = mlx5::create_cq_in;
  namespace cqc = mlx5::cqc;
  CreateCqMailbox create;
  create.Set(mlx5::command_in::kOpcode, mlx5::CommandOpcode::kCreateCq)
      .Set(cqc::kCc.At(in::kCqc), config.mode == CqMode::kCollapsed)
      // Ignores overrun: nobody gives CQEs back, except to a shared ring, and each has room for what is
      // outstanding.
      .Set(cqc::kOi.At(in::kCqc), true)
      .Set(cqc::kLogCqSize.At(in::kCqc), static_cast<uint32_t>(std::countr_zero(config.depth)))
      .Set(cqc::kUarPage.At(in::kCqc), config.uar_page)
      .Set(cqc::kCEqn.At(in::kCqc), EventQueue(context))
      .Set(cqc::kDbrUmemValid.At(in::kCqc), true)
      .Set(cqc::kDbrUmemId.At(in::kCqc), config.umem_id)
      .Set(cqc::kDbrAddr.At(in::kCqc), config.dbr_offset)
      .Set(in::kCqUmemValid, true)
      .Set(in::kCqUmemId, config.umem_id)
      .Set(in::kCqUmemOffset, config.cqes_offset);
  return create;
}

}  // namespace

HostPages PagesWithCqes(size_t bytes, size_t cqes, size_t cqe_bytes) {
  HostPages pages(bytes);
  std::memset(pages.data() + cqes, kInvalidCqe, cqe_bytes);
  return pages;
}

uint64_t FirstError(const device::CqView& view, uint32_t consumer_index, uint32_t qpn) {
  device::CompletionRing<arch::Cpu> ring(view, consumer_index);
  arch::CqeTail tail;
  for (uint32_t seen = 0; seen < view.depth && ring.Next(tail); ++seen) {
    if (device::IsError(tail) && ring.Last().qpn == qpn) return device::ErrorWord(tail);
  }
  return 0;
}

uint64_t ErrorAtEnd(const device::CqView& ring) {
  const device::Cqes<arch::Cpu> cqes{ring.cqe, ring.depth};
  uint32_t number;
  arch::CqeTail tail;
  // After a failure, the NIC comes round once more at most. If it still does, nothing has failed.
  constexpr int kLooks = 3;
  for (int look = 0; look < kLooks; ++look) {
    if (cqes.FindNewest(number, tail)) return device::IsError(tail) ? device::ErrorWord(tail) : 0;
  }
  return 0;
}

std::vector<CqePatch> AsBeforeIndex0(const device::CqView& ring) {
  constexpr auto kSuccess = static_cast<uint8_t>(mlx5::CqeOpcode::kResponderSend);
  const device::Cqes<arch::Cpu> cqes{ring.cqe, ring.depth};
  const uint32_t newest = (EndOfRing(ring) - 1) & (ring.depth - 1);
  std::vector<CqePatch> patches;
  for (uint32_t slot = 0; slot < ring.depth; ++slot) {
    const arch::CqeTail cqe = cqes.Load(slot);
    if (device::Opcode(cqe) == mlx5::CqeOpcode::kInvalid) continue;
    if (slot != newest && !device::IsError(cqe)) continue;
    const auto op_own = static_cast<uint8_t>(kSuccess << 4 | (device::OwnerBit(cqe) ? 1 : 0));
    patches.push_back({.offset = slot * sizeof(mlx5::Cqe64) + offsetof(mlx5::Cqe64, wqe_counter),
                       .bytes = {0xff, 0xff, 0, op_own}});
  }
  return patches;
}

CompletionQueue::CompletionQueue(ibv_context* context, const CompletionQueueConfig& config)
    : cq_(context, "the completion queue", CreateCommand(context, config)) {}

}  // namespace warpverbs::inline v0_2::host
