#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>

#include <cstring>

#include "core/limits.hpp"
#include "uverbs/descriptors.hpp"
#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

constexpr uint64_t kPageBytes = 4096;

/// Maps zeroed pages of the device's file. The program maps the same ones.
///
/// @return  the pages, which are unmapped with the last reference
std::shared_ptr<uint8_t> MapPages(int fd, uint16_t page_index, uint64_t pages) {
  const size_t bytes = pages * kPageBytes;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            static_cast<off_t>(CardMemoryPage(page_index) * kPageBytes));
  if (memory == MAP_FAILED) throw Errno(errno, "cannot map card memory");
  std::memset(memory, 0, bytes);  // freed memory may have left its bytes
  return {static_cast<uint8_t*>(memory), [bytes](uint8_t* at) { munmap(at, bytes); }};
}

/// Allocates memory of the card, in whole pages of the device's file. Its first byte starts a page.
///
/// @source  Linux v6.12, drivers/infiniband/hw/mlx5/dm.c, mlx5_ib_alloc_dm()
void AllocCardMemory(Call& call) {
  IoctlRequest& request = call.request();
  const auto bytes = request.Get<uint64_t>(UVERBS_ATTR_ALLOC_DM_LENGTH);
  const auto log_alignment = request.Get<uint32_t>(UVERBS_ATTR_ALLOC_DM_ALIGNMENT);
  const auto type = request.Get<uint64_t>(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, MLX5_IB_UAPI_DM_TYPE_MEMIC);
  if (type != MLX5_IB_UAPI_DM_TYPE_MEMIC) throw Errno(EOPNOTSUPP, "the device has no memory for steering");
  if (bytes == 0 || bytes > limits::kCardMemoryBytes)
    throw Errno(EINVAL, "the card has no " + std::to_string(bytes) + " bytes of memory");
  if (log_alignment > 12) throw Errno(EINVAL, "card memory cannot be aligned to more than a page");
  const uint64_t parts = (bytes + limits::kCardMemoryPart - 1) / limits::kCardMemoryPart;
  const uint64_t pages = CardMemoryPages(bytes);
  const uint16_t page_index = call.context().NextCardMemoryPage(pages, FileBytes(call.fd()));
  const std::shared_ptr<uint8_t> memory = MapPages(call.fd(), page_index, pages);
  const uint32_t number = call.hca().AddCardMemory(
      {.memory = {memory.get(), static_cast<size_t>(parts * limits::kCardMemoryPart)}, .hold = memory});
  request.SetHandle(UVERBS_ATTR_ALLOC_DM_HANDLE,
                    call.context().Add(std::make_unique<CardMemoryObject>(number, page_index, bytes)));
  request.Set(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, uint64_t{0});
  request.Set(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page_index);
}

void FreeCardMemory(Call& call) { call.Destroy(UVERBS_ATTR_FREE_DM_HANDLE, Kind::kCardMemory); }

/// Tells a process that has got the device's descriptor where to map the memory (ibv_import_dm()).
void QueryCardMemory(Call& call) {
  IoctlRequest& request = call.request();
  const auto& object = call.Get<CardMemoryObject>(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, Kind::kCardMemory);
  request.Set(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, uint64_t{0});
  request.Set(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, object.page_index);
  request.Set(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, object.bytes);
}

void RefuseOperation(Call&) { throw Errno(EOPNOTSUPP, "card memory has no addresses for operations"); }

constexpr Method kCardMemoryMethods[] = {
    {UVERBS_OBJECT_DM,
     UVERBS_METHOD_DM_ALLOC,
     "ALLOC_DM",
     AllocCardMemory,
     {Required(UVERBS_ATTR_ALLOC_DM_HANDLE), Required(UVERBS_ATTR_ALLOC_DM_LENGTH),
      Required(UVERBS_ATTR_ALLOC_DM_ALIGNMENT), Required(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET),
      Optional(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX), Optional(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE)}},
    {UVERBS_OBJECT_DM,
     UVERBS_METHOD_DM_FREE,
     "FREE_DM",
     FreeCardMemory,
     {Required(UVERBS_ATTR_FREE_DM_HANDLE)}},
    {UVERBS_OBJECT_DM,
     MLX5_IB_METHOD_DM_MAP_OP_ADDR,
     "DM_MAP_OP_ADDR",
     RefuseOperation,
     {Required(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE), Required(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP),
      Required(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET),
      Required(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX)}},
    {UVERBS_OBJECT_DM,
     MLX5_IB_METHOD_DM_QUERY,
     "QUERY_DM",
     QueryCardMemory,
     {Required(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE), Required(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET),
      Required(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX), Required(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH)}},
};

}  // namespace

std::span<const Method> CardMemoryMethods() { return kCardMemoryMethods; }

}  // namespace softhca::uverbs
