#include "memory/umem.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "memory/gpu_access.hpp"
#include "memory/locked_memory.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

namespace {

constexpr int kUmemPage = 4096;

using Handled = Handle<mlx5dv_devx_umem, mlx5dv_devx_umem_dereg>;

/// Returns whether the kernel does not know an attribute of the registration: the choice of page sizes is of
/// Linux 5.13, dma-bufs for queues are of 6.1.
bool IsTooOld(int error) { return error == EPROTONOSUPPORT || error == EOPNOTSUPP; }

/// Registers plain memory by the call of older kernels. They always use their own page size, so the layout's
/// offsets are right only if that is the layout's.
///
/// @source  Linux commit "RDMA/mlx5: Allow larger pages in DevX umem" (5.13); rdma-core v44,
///          providers/mlx5/verbs.c, __mlx5dv_devx_umem_reg_ex(): optional attributes of the older call
Handled RegisterAsBefore(ibv_context* context, void* address, size_t bytes) {
  if (sysconf(_SC_PAGESIZE) != kUmemPage) return nullptr;
  return Handled(mlx5dv_devx_umem_reg(context, address, bytes, IBV_ACCESS_LOCAL_WRITE));
}

/// @param address  start of plain memory, or offset in an export
/// @param buffer   the export, or nullptr for plain memory
Handled Register(ibv_context* context, void* address, size_t bytes, const DmaBuf* buffer) {
  mlx5dv_devx_umem_in in{};
  in.addr = address;
  in.size = bytes;
  in.access = IBV_ACCESS_LOCAL_WRITE;
  // Objects are aligned to 1/64 of the page only. Larger pages would need a larger alignment.
  in.pgsz_bitmap = kUmemPage;
  if (buffer != nullptr) {
    in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
    in.dmabuf_fd = buffer->fd();
  }
  Handled umem(mlx5dv_devx_umem_reg_ex(context, &in));
  int error = umem ? 0 : errno;
  if (IsTooOld(error) && buffer == nullptr) {
    umem = RegisterAsBefore(context, address, bytes);
    if (!umem && !IsTooOld(errno)) error = errno;
  }
  if (umem) return umem;
  const bool too_old = IsTooOld(error);
  throw Error("register", std::to_string(bytes) + " bytes of queue memory on " + context->device->name,
              buffer == nullptr ? PinningReason(error) : Error::DescribeErrno(error),
              !too_old            ? PinningRemedy(error)
              : buffer == nullptr ? "Use Linux 5.13 or later, or a recent DOCA/MLNX_OFED"
                                  : "Use Linux 6.1 or later, or a recent DOCA/MLNX_OFED",
              error);
}

}  // namespace

Umem::Umem(ibv_context* context, void* memory, size_t bytes)
    : umem_(Register(context, memory, bytes, nullptr)) {}

Umem::Umem(ibv_context* context, const DmaBuf& buffer)
    : umem_(Register(context, nullptr, buffer.size(), &buffer)) {}

}  // namespace warpverbs::inline v0_2::host
