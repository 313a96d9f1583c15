#include "warpverbs/host/umem.hpp"

#include <cerrno>
#include <string>

#include "locked_memory.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

Umem::Umem(ibv_context* context, void* memory, size_t bytes) {
  mlx5dv_devx_umem_in in{};
  in.addr = memory;
  in.size = bytes;
  in.access = IBV_ACCESS_LOCAL_WRITE;
  // Objects lie at offsets that need only be aligned to 1/64 of the page; larger pages would ask for more.
  in.pgsz_bitmap = 4096;
  umem_.reset(mlx5dv_devx_umem_reg_ex(context, &in));
  if (!umem_) {
    const int error = errno;
    throw Error::FromErrno("register",
                           std::to_string(bytes) + " bytes of queue memory on " + context->device->name,
                           error, PinningRemedy(error));
  }
}

}  // namespace warpverbs::host
