#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>

#include <cstring>

#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

/// A page of the device's file. The response tells the program the offset to map.
class MappedPage {
 public:
  MappedPage(int fd, uint64_t offset)
      : page_(mmap(nullptr, mlx5::kUarPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   static_cast<off_t>(offset))) {
    if (page_ == MAP_FAILED) throw Errno(errno, "cannot map a UAR page");
    std::memset(page_, 0, mlx5::kUarPageBytes);  // a freed UAR may have left doorbells
  }
  ~MappedPage() {
    if (page_ != MAP_FAILED) munmap(page_, mlx5::kUarPageBytes);
  }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;

  uint8_t* get() const { return static_cast<uint8_t*>(page_); }
  void Release() { page_ = MAP_FAILED; }

 private:
  void* page_;
};

void AllocUar(Call& call) {
  IoctlRequest& request = call.request();
  const auto type = request.Get<uint32_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
  // Both types are ordinary memory here, and every register in them is polled.
  if (type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) {
    throw Errno(EOPNOTSUPP, "UAR type " + std::to_string(type) + " is unknown");
  }
  const uint64_t offset = call.context().NextUarOffset(FileBytes(call.fd()));
  MappedPage page(call.fd(), offset);
  const uint32_t number = call.hca().AllocUar(page.get());
  page.Release();
  request.SetHandle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE,
                    call.context().Add(std::make_unique<UarObject>(number, offset)));
  request.Set(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset);
  request.Set(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, mlx5::kUarPageBytes);
  request.Set(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, number);
}

void DestroyUar(Call& call) { call.Destroy(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, Kind::kUar); }

constexpr Method kUarMethods[] = {
    {MLX5_IB_OBJECT_UAR,
     MLX5_IB_METHOD_UAR_OBJ_ALLOC,
     "ALLOC_UAR",
     AllocUar,
     {Required(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE), Required(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE),
      Required(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET), Required(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH),
      Required(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID)}},
    {MLX5_IB_OBJECT_UAR,
     MLX5_IB_METHOD_UAR_OBJ_DESTROY,
     "FREE_UAR",
     DestroyUar,
     {Required(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)}},
};

}  // namespace

std::span<const Method> UarMethods() { return kUarMethods; }

}  // namespace softhca::uverbs
