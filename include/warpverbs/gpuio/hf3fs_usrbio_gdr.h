#pragma once

#include "hf3fs_usrbio.h"

/// Buffers in GPU memory for the rings of hf3fs_usrbio.h: files are read into them and written from them by
/// RDMA, without a copy in the host's memory.
///
/// Neither CUDA nor its headers are needed to compile: the driver is loaded at run time. Without
/// HF3FS_GDR_ENABLED, which the library's build sets by ENABLE_GDR, buffers can be neither opened nor
/// wrapped, and creating one returns -ENOTSUP.

#ifdef __cplusplus
extern "C" {
#endif

/// A buffer's allocation for another process of this machine. Opaque; has a checksum.
typedef struct {  // NOLINT(modernize-use-using): C
  uint8_t data[80];
} hf3fs_gpu_ipc_handle_t;

/// Where an iov's memory is.
enum hf3fs_mem_type {
  HF3FS_MEM_HOST = 0,
  HF3FS_MEM_DEVICE = 1,
  HF3FS_MEM_MANAGED = 2,  ///< never returned: NICs cannot reach managed memory
};

/// Says whether buffers in GPU memory work: there is a GPU, a NIC with an active port, and a trial
/// registration succeeds.
///
/// Finds out once. Needs neither nvidia_peermem nor MLNX_OFED where the driver exports dma-bufs (Linux 5.12,
/// NVIDIA's open kernel modules).
HF3FS_API bool hf3fs_gdr_available(void);

/// Returns the number of GPUs; 0 unless hf3fs_gdr_available().
HF3FS_API int hf3fs_gdr_device_count(void);

/// Allocates a buffer on a GPU and publishes it on the mount. Its contents are undefined.
///
/// @param size           in bytes; 1 or more
/// @param block_size     0
/// @param gpu_device_id  as the CUDA runtime counts
/// @return  -EINVAL: a pointer is NULL, the mount is empty or too long, size is 0, or block_size is not;
///          -ENOTSUP: hf3fs_gdr_available() is false, or the daemon cannot register memory of this GPU;
///          -ENODEV: the GPU does not exist;
///          -ENOMEM: the GPU's memory, or what registrations take, has run out;
///          -EIO: the daemon does not answer;
///          otherwise what symlink() reports
HF3FS_API int hf3fs_iovcreate_gpu(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                                  size_t block_size, int gpu_device_id);
HF3FS_API int hf3fs_iovcreate_device(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                                     size_t block_size, int device_id);

#ifdef HF3FS_GDR_ENABLED
/// Opens a buffer that another process has created or wrapped.
///
/// @return  as hf3fs_iovcreate_gpu(); -ENOENT: the buffer is not published;
///          -EINVAL: what is published has another size or GPU, or is damaged;
///          -EIO: the driver cannot open it;
///          -ENOTSUP: its driver gives other processes no access
HF3FS_API int hf3fs_iovopen_gpu(struct hf3fs_iov* iov, const uint8_t id[16], const char* hf3fs_mount_point,
                                size_t size, size_t block_size, int gpu_device_id);
HF3FS_API int hf3fs_iovopen_device(struct hf3fs_iov* iov, const uint8_t id[16], const char* hf3fs_mount_point,
                                   size_t size, size_t block_size, int device_id);

/// Publishes memory of the caller's, which stays the caller's and must outlive the iov.
///
/// @param gpu_ptr  memory of cudaMalloc() or cuMemCreate(), also within an allocation
/// @param id       16 bytes that nobody else uses on this mount
/// @return  as hf3fs_iovcreate_gpu(); -EINVAL: it is not GPU memory of this GPU, or leaves its allocation
HF3FS_API int hf3fs_iovwrap_gpu(struct hf3fs_iov* iov, void* gpu_ptr, const uint8_t id[16],
                                const char* hf3fs_mount_point, size_t size, size_t block_size,
                                int gpu_device_id);
HF3FS_API int hf3fs_iovwrap_device(struct hf3fs_iov* iov, void* device_ptr, const uint8_t id[16],
                                   const char* hf3fs_mount_point, size_t size, size_t block_size,
                                   int device_id);
#endif

/// Removes the buffer's name from the mount, and keeps the iov.
HF3FS_API void hf3fs_iovunlink_gpu(struct hf3fs_iov* iov);

/// Releases a buffer as hf3fs_iovdestroy() does.
HF3FS_API void hf3fs_iovdestroy_gpu(struct hf3fs_iov* iov);

/// Says whether an iov is in GPU memory. False for one that was destroyed.
HF3FS_API bool hf3fs_iov_is_gpu(const struct hf3fs_iov* iov);

/// Returns the ordinal of an iov's GPU; -1: it has none.
HF3FS_API int hf3fs_iov_gpu_device(const struct hf3fs_iov* iov);
HF3FS_API int hf3fs_iov_device_id(const struct hf3fs_iov* iov);
HF3FS_API enum hf3fs_mem_type hf3fs_iov_mem_type(const struct hf3fs_iov* iov);

/// Makes what one side has written visible to the other. Does nothing to an iov in host memory.
///
/// @param direction  0: before I/O, for what kernels wrote; 1: after I/O, for kernels that read
/// @return  -EINVAL: NULL, or another direction; -ENODEV: the GPU is gone; -EIO: CUDA fails
HF3FS_API int hf3fs_iovsync_gpu(const struct hf3fs_iov* iov, int direction);
HF3FS_API int hf3fs_iovsync(const struct hf3fs_iov* iov, int direction);

/// Describes a buffer for another process.
///
/// @return  -EINVAL: NULL, or not in GPU memory; -ENOTSUP: CUDA has no IPC handle for it
HF3FS_API int hf3fs_iov_export_gpu(const struct hf3fs_iov* iov, hf3fs_gpu_ipc_handle_t* handle);

/// Opens a buffer that another process has exported. The new iov has an id of its own.
///
/// The daemon uses the registration of the buffer that was exported, and ends it with that one.
///
/// @return  -EINVAL: NULL, damaged, or it leaves its allocation;
///          -ENODEV: its GPU is not visible here;
///          -ENOTSUP: no CUDA, or the daemon cannot register it;
///          -EIO: the driver cannot open it, or the daemon does not answer;
///          -ENOMEM: memory has run out
HF3FS_API int hf3fs_iov_import_gpu(struct hf3fs_iov* iov, const hf3fs_gpu_ipc_handle_t* handle,
                                   const char* hf3fs_mount_point);

#ifdef __cplusplus
}
#endif
