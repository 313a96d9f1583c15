#include "host/endpoint/fault_calls.hpp"

#include <dlfcn.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

namespace warpverbs::inline v0_2::host {
namespace {

thread_local CallFault asked;
thread_local bool counting = false;
thread_local int count = 0;
thread_local const char* failed_call = "";
thread_local int depth = 0;  // nesting in rdma-core, whose own calls are not counted

std::atomic<long> blocks{0};

/// Resources held by the program. Never allocates.
struct Ledger {
  struct Line {
    const void* object;
    const char* kind;
  };
  static constexpr size_t kLines = 4096;

  void Add(const void* object, const char* kind) {
    const std::lock_guard lock(mutex);
    for (Line& line : lines) {
      if (line.object != nullptr) continue;
      line = {object, kind};
      return;
    }
    std::abort();
  }
  void Remove(const void* object, const char* kind) {
    const std::lock_guard lock(mutex);
    for (Line& line : lines) {
      if (line.object == object && line.kind == kind) {
        line = {};
        return;
      }
    }
  }

  std::mutex mutex;
  std::array<Line, kLines> lines;
};
constinit Ledger ledger{};

constexpr const char kList[] = "device list", kContext[] = "context", kPd[] = "PD", kMr[] = "MR",
                     kAh[] = "AH", kUar[] = "UAR", kUmem[] = "umem", kObject[] = "object",
                     kChannel[] = "event channel", kPages[] = "mapping";

bool Fails(FaultyCalls calls, const char* name) {
  if (!counting || depth != 0 || asked.calls != calls) return false;
  const int call = count++;
  if (asked.call < 0 || (asked.lasting ? call < asked.call : call != asked.call)) return false;
  failed_call = name;
  errno = call != asked.call && asked.later_error != 0 ? asked.later_error : asked.error;
  return true;
}

template <class Function>
Function* TheirOwn(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Calls a function that makes an object.
template <class Function, class... Arguments>
auto Make(const char* kind, const char* name, Function* own, Arguments... arguments) {
  using Object = decltype(own(arguments...));
  if (Fails(FaultyCalls::kVerbs, name)) return Object{nullptr};
  const InLibrary in_library;
  const Object object = own(arguments...);
  if (object != nullptr && depth == 1) ledger.Add(object, kind);
  return object;
}

/// Calls a function that returns an errno value.
template <class Function, class... Arguments>
int Do(const char* name, Function* own, Arguments... arguments) {
  if (Fails(FaultyCalls::kVerbs, name)) return errno;
  const InLibrary in_library;
  return own(arguments...);
}

/// Calls a function that destroys an object.
template <class Function, class Object>
auto GiveBack(const char* kind, Function* own, Object* object) {
  if (depth == 0) ledger.Remove(object, kind);
  const InLibrary in_library;
  return own(object);
}

void* Allocate(size_t bytes, size_t alignment) {
  if (Fails(FaultyCalls::kMemory, "operator new")) return nullptr;
  bytes = std::max<size_t>(bytes, 1);
  void* const block = alignment <= alignof(std::max_align_t)
                          ? std::malloc(bytes)
                          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block != nullptr) ++blocks;
  return block;
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  void* const block = Allocate(bytes, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void Free(void* block) {
  if (block != nullptr) --blocks;
  std::free(block);
}

}  // namespace

InLibrary::InLibrary() { ++depth; }
InLibrary::~InLibrary() { --depth; }

Faulty::Faulty(const CallFault& fault) {
  asked = fault;
  count = 0;
  failed_call = "";
  counting = true;
}
Faulty::~Faulty() { counting = false; }

int Faulty::calls() const { return count; }

const char* Faulty::failed() const { return failed_call; }

std::string HeldByVerbs() {
  std::map<std::string, int> kinds;
  {
    const std::lock_guard lock(ledger.mutex);
    for (const Ledger::Line& line : ledger.lines)
      if (line.object != nullptr) ++kinds[line.kind];
  }
  std::string words;
  for (const auto& [kind, number] : kinds)
    words += (words.empty() ? "" : ", ") + std::to_string(number) + " " + kind;
  return words;
}

long HeldBlocks() { return blocks; }

}  // namespace warpverbs::inline v0_2::host

using namespace warpverbs::host;  // NOLINT(google-build-using-namespace): the functions below are the
                                  // program's

extern "C" {

ibv_device** ibv_get_device_list(int* number) {
  static auto* const own = TheirOwn(&ibv_get_device_list, "ibv_get_device_list");
  return Make(kList, "ibv_get_device_list", own, number);
}
void ibv_free_device_list(ibv_device** list) {
  static auto* const own = TheirOwn(&ibv_free_device_list, "ibv_free_device_list");
  GiveBack(kList, own, list);
}

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attributes) {
  static auto* const own = TheirOwn(&mlx5dv_open_device, "mlx5dv_open_device");
  return Make(kContext, "mlx5dv_open_device", own, device, attributes);
}
int ibv_close_device(ibv_context* context) {
  static auto* const own = TheirOwn(&ibv_close_device, "ibv_close_device");
  return GiveBack(kContext, own, context);
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  static auto* const own = TheirOwn(&ibv_alloc_pd, "ibv_alloc_pd");
  return Make(kPd, "ibv_alloc_pd", own, context);
}
int ibv_dealloc_pd(ibv_pd* pd) {
  static auto* const own = TheirOwn(&ibv_dealloc_pd, "ibv_dealloc_pd");
  return GiveBack(kPd, own, pd);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
  static auto* const own = TheirOwn(&ibv_reg_mr, "ibv_reg_mr");
  return Make(kMr, "ibv_reg_mr", own, pd, address, bytes, access);
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
  static auto* const own = TheirOwn(&ibv_reg_mr_iova2, "ibv_reg_mr_iova2");
  return Make(kMr, "ibv_reg_mr_iova2", own, pd, address, bytes, iova, access);
}
// NOLINTNEXTLINE(readability-function-size): rdma-core's own
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  static auto* const own = TheirOwn(&ibv_reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  return Make(kMr, "ibv_reg_dmabuf_mr", own, pd, offset, bytes, iova, fd, access);
}
int ibv_dereg_mr(ibv_mr* region) {
  static auto* const own = TheirOwn(&ibv_dereg_mr, "ibv_dereg_mr");
  return GiveBack(kMr, own, region);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  static auto* const own = TheirOwn(&ibv_create_ah, "ibv_create_ah");
  return Make(kAh, "ibv_create_ah", own, pd, attributes);
}
int ibv_destroy_ah(ibv_ah* handle) {
  static auto* const own = TheirOwn(&ibv_destroy_ah, "ibv_destroy_ah");
  return GiveBack(kAh, own, handle);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  static auto* const own = TheirOwn(&ibv_query_device, "ibv_query_device");
  return Do("ibv_query_device", own, context, attributes);
}
int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  static auto* const own = TheirOwn(&ibv_query_port, "ibv_query_port");
  return Do("ibv_query_port", own, context, port, attributes);
}

mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context* context, uint32_t flags) {
  static auto* const own = TheirOwn(&mlx5dv_devx_alloc_uar, "mlx5dv_devx_alloc_uar");
  return Make(kUar, "mlx5dv_devx_alloc_uar", own, context, flags);
}
void mlx5dv_devx_free_uar(mlx5dv_devx_uar* uar) {
  static auto* const own = TheirOwn(&mlx5dv_devx_free_uar, "mlx5dv_devx_free_uar");
  GiveBack(kUar, own, uar);
}

mlx5dv_devx_umem* mlx5dv_devx_umem_reg_ex(ibv_context* context, mlx5dv_devx_umem_in* in) {
  static auto* const own = TheirOwn(&mlx5dv_devx_umem_reg_ex, "mlx5dv_devx_umem_reg_ex");
  return Make(kUmem, "mlx5dv_devx_umem_reg_ex", own, context, in);
}
mlx5dv_devx_umem* mlx5dv_devx_umem_reg(ibv_context* context, void* address, size_t bytes, uint32_t access) {
  static auto* const own = TheirOwn(&mlx5dv_devx_umem_reg, "mlx5dv_devx_umem_reg");
  return Make(kUmem, "mlx5dv_devx_umem_reg", own, context, address, bytes, access);
}
int mlx5dv_devx_umem_dereg(mlx5dv_devx_umem* umem) {
  static auto* const own = TheirOwn(&mlx5dv_devx_umem_dereg, "mlx5dv_devx_umem_dereg");
  return GiveBack(kUmem, own, umem);
}

mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context* context, const void* in, size_t in_bytes, void* out,
                                        size_t out_bytes) {
  static auto* const own = TheirOwn(&mlx5dv_devx_obj_create, "mlx5dv_devx_obj_create");
  return Make(kObject, "mlx5dv_devx_obj_create", own, context, in, in_bytes, out, out_bytes);
}
int mlx5dv_devx_obj_modify(mlx5dv_devx_obj* object, const void* in, size_t in_bytes, void* out,
                           size_t out_bytes) {
  static auto* const own = TheirOwn(&mlx5dv_devx_obj_modify, "mlx5dv_devx_obj_modify");
  return Do("mlx5dv_devx_obj_modify", own, object, in, in_bytes, out, out_bytes);
}
int mlx5dv_devx_obj_query(mlx5dv_devx_obj* object, const void* in, size_t in_bytes, void* out,
                          size_t out_bytes) {
  static auto* const own = TheirOwn(&mlx5dv_devx_obj_query, "mlx5dv_devx_obj_query");
  return Do("mlx5dv_devx_obj_query", own, object, in, in_bytes, out, out_bytes);
}
int mlx5dv_devx_obj_destroy(mlx5dv_devx_obj* object) {
  static auto* const own = TheirOwn(&mlx5dv_devx_obj_destroy, "mlx5dv_devx_obj_destroy");
  return GiveBack(kObject, own, object);
}

mlx5dv_devx_event_channel* mlx5dv_devx_create_event_channel(ibv_context* context,
                                                            mlx5dv_devx_create_event_channel_flags flags) {
  static auto* const own = TheirOwn(&mlx5dv_devx_create_event_channel, "mlx5dv_devx_create_event_channel");
  return Make(kChannel, "mlx5dv_devx_create_event_channel", own, context, flags);
}
void mlx5dv_devx_destroy_event_channel(mlx5dv_devx_event_channel* channel) {
  static auto* const own = TheirOwn(&mlx5dv_devx_destroy_event_channel, "mlx5dv_devx_destroy_event_channel");
  GiveBack(kChannel, own, channel);
}
// NOLINTNEXTLINE(readability-function-size): rdma-core's own
int mlx5dv_devx_subscribe_devx_event(mlx5dv_devx_event_channel* channel, mlx5dv_devx_obj* object,
                                     uint16_t bytes, uint16_t* types, uint64_t cookie) {
  static auto* const own = TheirOwn(&mlx5dv_devx_subscribe_devx_event, "mlx5dv_devx_subscribe_devx_event");
  return Do("mlx5dv_devx_subscribe_devx_event", own, channel, object, bytes, types, cookie);
}

ssize_t mlx5dv_devx_get_event(mlx5dv_devx_event_channel* channel, mlx5dv_devx_async_event_hdr* event,
                              size_t bytes) {
  static auto* const own = TheirOwn(&mlx5dv_devx_get_event, "mlx5dv_devx_get_event");
  if (Fails(FaultyCalls::kVerbs, "mlx5dv_devx_get_event")) return -1;
  const InLibrary in_library;
  return own(channel, event, bytes);
}

int mlx5dv_devx_general_cmd(ibv_context* context, const void* in, size_t in_bytes, void* out,
                            size_t out_bytes) {
  static auto* const own = TheirOwn(&mlx5dv_devx_general_cmd, "mlx5dv_devx_general_cmd");
  return Do("mlx5dv_devx_general_cmd", own, context, in, in_bytes, out, out_bytes);
}
int mlx5dv_devx_query_eqn(ibv_context* context, uint32_t vector, uint32_t* eqn) {
  static auto* const own = TheirOwn(&mlx5dv_devx_query_eqn, "mlx5dv_devx_query_eqn");
  return Do("mlx5dv_devx_query_eqn", own, context, vector, eqn);
}
int mlx5dv_init_obj(mlx5dv_obj* object, uint64_t type) {
  static auto* const own = TheirOwn(&mlx5dv_init_obj, "mlx5dv_init_obj");
  return Do("mlx5dv_init_obj", own, object, type);
}

// NOLINTNEXTLINE(readability-function-size): the C library's own
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  static auto* const own = TheirOwn(&mmap, "mmap");
  if ((flags & MAP_FIXED) != 0)  // over pages that their owner gives back: how fakes of drivers export memory
    return own(address, bytes, protection, flags, fd, offset);
  if (Fails(FaultyCalls::kVerbs, "mmap")) return MAP_FAILED;
  void* const pages = own(address, bytes, protection, flags, fd, offset);
  if (counting && depth == 0 && pages != MAP_FAILED) ledger.Add(pages, kPages);
  return pages;
}
int munmap(void* pages, size_t bytes) noexcept {
  static auto* const own = TheirOwn(&munmap, "munmap");
  if (depth == 0) ledger.Remove(pages, kPages);
  return own(pages, bytes);
}

}  // extern "C"

void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void operator delete(void* block) noexcept { Free(block); }
void operator delete[](void* block) noexcept { Free(block); }
void operator delete(void* block, size_t) noexcept { Free(block); }
void operator delete[](void* block, size_t) noexcept { Free(block); }
void operator delete(void* block, std::align_val_t) noexcept { Free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { Free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { Free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { Free(block); }
