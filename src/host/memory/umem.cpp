#include "memory/umem.hpp"

#include <cerrno>
#include <string>

#include "memory/gpu_access.hpp"
#include "memory/locked_memory.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

namespace {

using Handled = Handle<mlx5dv_devx_umem, mlx5dv_devx_umem_dereg>;

/// @param address  start of plain memory, or offset in an export
/// @param buffer   the export, or nullptr for plain memory
Handled Register(ibv_context* context, void* address, size_t bytes, const DmaBuf* buffer) {
  mlx5dv_devx_umem_in in{};
  in.addr = address;
  in.size = bytes;
  in.access = IBV_ACCESS_LOCAL_WRITE;
  // Objects are aligned to 1/64 of the page only. Larger pages would need a larger alignment.
  in.pgsz_bitmap = 4096;
  if (buffer != nullptr) {
    in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
    in.dmabuf_fd = buffer->fd();
  }
  Handled umem(mlx5dv_devx_umem_reg_ex(context, &in));
  if (!umem) {
    const int error = errno;
    throw Error("register", std::to_string(bytes) + " bytes of queue memory on " + context->device->name,
                buffer == nullptr ? PinningReason(error) : Error::DescribeErrno(error), PinningRemedy(error),
                error);
  }
  return umem;
}

}  // namespace

Umem::Umem(ibv_context* context, void* memory, size_t bytes)
    : umem_(Register(context, memory, bytes, nullptr)) {}

Umem::Umem(ibv_context* context, const DmaBuf& buffer)
    : umem_(Register(context, nullptr, buffer.size(), &buffer)) {}

}  // namespace warpverbs::inline v0_2::host
