#include <assert.h>
#include <hf3fs_usrbio.h>
#include <hf3fs_usrbio_gdr.h>
#include <stddef.h>
#include <string.h>

/* The layouts of 3FS's header for x86-64. */
static_assert(sizeof(struct hf3fs_iov) == 312, "iov");
static_assert(offsetof(struct hf3fs_iov, base) == 0, "base");
static_assert(offsetof(struct hf3fs_iov, iovh) == 8, "iovh");
static_assert(offsetof(struct hf3fs_iov, id) == 16, "id");
static_assert(offsetof(struct hf3fs_iov, mount_point) == 32, "mount_point");
static_assert(offsetof(struct hf3fs_iov, size) == 288, "size");
static_assert(offsetof(struct hf3fs_iov, block_size) == 296, "block_size");
static_assert(offsetof(struct hf3fs_iov, numa) == 304, "numa");
static_assert(sizeof(struct hf3fs_ior) == 600, "ior");
static_assert(offsetof(struct hf3fs_ior, iorh) == 312, "iorh");
static_assert(offsetof(struct hf3fs_ior, mount_point) == 320, "mount_point");
static_assert(offsetof(struct hf3fs_ior, for_read) == 576, "for_read");
static_assert(offsetof(struct hf3fs_ior, io_depth) == 580, "io_depth");
static_assert(offsetof(struct hf3fs_ior, priority) == 584, "priority");
static_assert(offsetof(struct hf3fs_ior, timeout) == 588, "timeout");
static_assert(offsetof(struct hf3fs_ior, flags) == 592, "flags");
static_assert(sizeof(struct hf3fs_cqe) == 24, "cqe");
static_assert(offsetof(struct hf3fs_cqe, result) == 8, "result");
static_assert(offsetof(struct hf3fs_cqe, userdata) == 16, "userdata");
static_assert(sizeof(hf3fs_gpu_ipc_handle_t) == 80, "handle");
static_assert(HF3FS_SUPER_MAGIC == 0x8f3f5fff, "magic");
static_assert(HF3FS_IOR_ALLOW_READ_UNCOMMITTED == 1 && HF3FS_IOR_FORBID_READ_HOLES == 2, "flags");
static_assert(HF3FS_MEM_HOST == 0 && HF3FS_MEM_DEVICE == 1 && HF3FS_MEM_MANAGED == 2, "kinds of memory");

/* Names every function, so that a program in C links all of them. */
const void* hf3fs_every_function(int index);
const void* hf3fs_every_function(int index) {
  void (*const functions[])(void) = {
      (void (*)(void))hf3fs_is_hf3fs,       (void (*)(void))hf3fs_extract_mount_point,
      (void (*)(void))hf3fs_iovcreate,      (void (*)(void))hf3fs_iovopen,
      (void (*)(void))hf3fs_iovunlink,      (void (*)(void))hf3fs_iovdestroy,
      (void (*)(void))hf3fs_iovwrap,        (void (*)(void))hf3fs_ior_size,
      (void (*)(void))hf3fs_iorcreate,      (void (*)(void))hf3fs_iorcreate2,
      (void (*)(void))hf3fs_iorcreate3,     (void (*)(void))hf3fs_iorcreate4,
      (void (*)(void))hf3fs_iorwrap,        (void (*)(void))hf3fs_iordestroy,
      (void (*)(void))hf3fs_reg_fd,         (void (*)(void))hf3fs_dereg_fd,
      (void (*)(void))hf3fs_io_entries,     (void (*)(void))hf3fs_prep_io,
      (void (*)(void))hf3fs_submit_ios,     (void (*)(void))hf3fs_wait_for_ios,
      (void (*)(void))hf3fs_hardlink,       (void (*)(void))hf3fs_punchhole,
      (void (*)(void))hf3fs_gdr_available,  (void (*)(void))hf3fs_gdr_device_count,
      (void (*)(void))hf3fs_iovcreate_gpu,  (void (*)(void))hf3fs_iovcreate_device,
#ifdef HF3FS_GDR_ENABLED
      (void (*)(void))hf3fs_iovopen_gpu,    (void (*)(void))hf3fs_iovopen_device,
      (void (*)(void))hf3fs_iovwrap_gpu,    (void (*)(void))hf3fs_iovwrap_device,
#endif
      (void (*)(void))hf3fs_iovunlink_gpu,  (void (*)(void))hf3fs_iovdestroy_gpu,
      (void (*)(void))hf3fs_iov_is_gpu,     (void (*)(void))hf3fs_iov_gpu_device,
      (void (*)(void))hf3fs_iov_device_id,  (void (*)(void))hf3fs_iov_mem_type,
      (void (*)(void))hf3fs_iovsync_gpu,    (void (*)(void))hf3fs_iovsync,
      (void (*)(void))hf3fs_iov_export_gpu, (void (*)(void))hf3fs_iov_import_gpu,
  };
  const int count = (int)(sizeof functions / sizeof functions[0]);
  const void* address = NULL;
  if (index >= 0 && index < count) memcpy(&address, &functions[index], sizeof address);
  return address;
}
