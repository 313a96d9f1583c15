#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifndef HF3FS_API
#define HF3FS_API __attribute__((visibility("default")))
#endif

/// Asynchronous reads and writes of files by a ring in shared memory: the C API of 3FS's USRBIO.
///
/// A program written for 3FS's header of this name compiles and links unchanged. It prepares I/O in a ring,
/// submits it, and waits for completions; the daemon of the node, `warpverbs-gpuiod`, carries it out. Unless
/// a function says otherwise, it returns 0 or a negative errno value, and writes to its first argument only
/// on success. See hf3fs_usrbio_gdr.h for buffers in GPU memory.
///
/// A mount is a folder that the daemon serves: it has the control folder `3fs-virt`.

#ifdef __cplusplus
extern "C" {
#endif

/// Magic number of 3FS's superblock.
#define HF3FS_SUPER_MAGIC 0x8f3f5fff

typedef void* hf3fs_iov_handle;  // NOLINT(modernize-use-using): C
typedef void* hf3fs_ior_handle;  // NOLINT(modernize-use-using): C

/// A buffer that I/O reads into or writes from. Its owner may copy the struct; destroy one of the copies.
struct hf3fs_iov {
  uint8_t* base;          ///< first byte; of a GPU iov: an address that only the GPU and NICs may touch
  hf3fs_iov_handle iovh;  ///< the library's own; NULL: nothing to release
  char id[16];            ///< name of the buffer on the mount: random bytes
  char mount_point[256];
  size_t size;        ///< in bytes
  size_t block_size;  ///< in bytes; an I/O may not cross a multiple of it; 0: no blocks
  int numa;           ///< NUMA node of the memory; -1: any
};

/// A ring of I/O requests and completions. It either reads or writes.
///
/// One thread at a time prepares and submits, and one waits; these two may be different threads.
struct hf3fs_ior {
  struct hf3fs_iov iov;   ///< shared memory of the ring
  hf3fs_ior_handle iorh;  ///< the library's own
  char mount_point[256];
  bool for_read;
  int io_depth;    ///< > 0: exact batches; 0: starts everything at once; < 0: batches of at most -io_depth
  int priority;    ///< < 0: high; 0: normal; > 0: low
  int timeout;     ///< time in ms until a partial batch starts, if io_depth < 0; 0: at once
  uint64_t flags;  ///< HF3FS_IOR_*
};

/// A completion.
struct hf3fs_cqe {
  int32_t index;  ///< index that hf3fs_prep_io() returned
  int32_t reserved;
  int64_t result;  ///< bytes, fewer than asked for at the end of the file; or a negative errno value
  const void* userdata;
};

/// Reads may return data that the writer has not committed. Accepted and without effect: a server's files
/// have one version.
#define HF3FS_IOR_ALLOW_READ_UNCOMMITTED 1
/// A read that meets a hole fails with -ENODATA. Without it a hole reads as zeros.
#define HF3FS_IOR_FORBID_READ_HOLES 2

/// Says whether a file is on a mount.
HF3FS_API bool hf3fs_is_hf3fs(int fd);

/// Finds the mount that a path is on.
///
/// @param hf3fs_mount_point  receives the mount with its final NUL, if that fits into `size` bytes
/// @return  length of the mount with its NUL; -1: the path is on no mount
HF3FS_API int hf3fs_extract_mount_point(char* hf3fs_mount_point, int size, const char* path);

/// Creates a buffer in the host's memory and publishes it on the mount.
///
/// @param size        in bytes; 1 or more
/// @param block_size  in bytes; 0: no blocks
/// @param numa        NUMA node to allocate on; -1: any
/// @return  -EINVAL: a pointer is NULL, the mount is empty or too long, or size is 0;
///          -ENOENT: the mount is not one;
///          -EIO: no shared memory, or the daemon does not answer;
///          -ENOMEM: the daemon cannot register the memory;
///          -ENOSPC: this process has too many buffers and rings;
///          otherwise what symlink() reports
HF3FS_API int hf3fs_iovcreate(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                              size_t block_size, int numa);

/// Opens a buffer of the host's memory that another process has published.
///
/// @return  as hf3fs_iovcreate(); -ENOENT: the buffer is not published;
///          -EINVAL: it is not in /dev/shm, or shorter than `size`
HF3FS_API int hf3fs_iovopen(struct hf3fs_iov* iov, const uint8_t id[16], const char* hf3fs_mount_point,
                            size_t size, size_t block_size, int numa);

/// Removes the buffer's name from the mount. Its memory stays mapped; new I/O on it fails with -EINVAL.
HF3FS_API void hf3fs_iovunlink(struct hf3fs_iov* iov);

/// Releases a buffer of any kind, and sets the struct to zero. A buffer that was created or wrapped loses its
/// name, too.
///
/// Does nothing to NULL, to a zeroed struct, and to one whose buffer is gone. If the name cannot be removed,
/// everything stays as it is, and the next call tries again.
HF3FS_API void hf3fs_iovdestroy(struct hf3fs_iov* iov);

/// Describes memory of a buffer that is published already, by this process or another. Releasing it releases
/// nothing.
HF3FS_API int hf3fs_iovwrap(struct hf3fs_iov* iov, void* iov_base, const uint8_t id[16],
                            const char* hf3fs_mount_point, size_t size, size_t block_size, int numa);

/// Returns the bytes of shared memory that a ring takes; 0: `entries` is not positive, or above 1,048,576.
HF3FS_API size_t hf3fs_ior_size(int entries);

/// Creates a ring.
///
/// @param entries   I/Os that may be prepared or under way at the same time; 1 or more
/// @param io_depth  see struct hf3fs_ior; at most `entries`
/// @param numa      NUMA node to allocate on; -1: any
/// @return  -EINVAL: a pointer is NULL, the mount is empty or too long, or a number is out of range;
///          -ENOENT: the mount is not one;
///          -EIO: no shared memory, the daemon does not answer, or the mount's submit semaphore is damaged;
///          -ENOSPC: this process has too many buffers and rings, or rings with too many entries in all;
///          otherwise what symlink() reports
HF3FS_API int hf3fs_iorcreate(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                              bool for_read, int io_depth, int numa);
HF3FS_API int hf3fs_iorcreate2(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                               bool for_read, int io_depth, int priority, int numa);
HF3FS_API int hf3fs_iorcreate3(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                               bool for_read, int io_depth, int priority, int timeout, int numa);
HF3FS_API int hf3fs_iorcreate4(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                               bool for_read, int io_depth, int timeout, int numa, uint64_t flags);

/// Uses the memory of a ring that another process has created, and still has. Nobody else may prepare or wait
/// meanwhile.
///
/// The ring's files are those that its creator has registered: this process registers them, too, for
/// hf3fs_prep_io(). No I/O may be under way: completions that nobody has taken are taken here.
///
/// @param buf   the ring's memory, mapped here
/// @param size  in bytes, as hf3fs_ior_size() returned
HF3FS_API int hf3fs_iorwrap(struct hf3fs_ior* ior, void* buf, const char* hf3fs_mount_point, size_t size,
                            bool for_read, int io_depth, int priority, int timeout, uint64_t flags);

/// Releases a ring. I/O under way may still access its buffers until hf3fs_iovdestroy() of those returns.
HF3FS_API void hf3fs_iordestroy(struct hf3fs_ior* ior);

/// Registers an open file for I/O.
///
/// @param flags  without effect
/// @return  0 or less: success; the value is the negative of a duplicate, which hf3fs_prep_io() takes, too.
///          Otherwise a positive errno value:
///          EBADF: the file is not on a mount;
///          EINVAL: the descriptor is registered already;
///          EXDEV: a file of another file system with the same inode is registered by this process;
///          EROFS: the server is read-only, and the descriptor is not
HF3FS_API int hf3fs_reg_fd(int fd, uint64_t flags);

/// Ends the registration of a file. I/O that was submitted completes; I/O that io_depth holds back fails with
/// -EACCES.
HF3FS_API void hf3fs_dereg_fd(int fd);

/// Returns the entries of a ring.
HF3FS_API int hf3fs_io_entries(const struct hf3fs_ior* ior);

/// Prepares an I/O. It may start at once, and is sure to after the next hf3fs_submit_ios() if io_depth lets
/// it.
///
/// Never touches the memory at `ptr`. Not thread-safe.
///
/// @param read      whether to read from the file: as the ring
/// @param ptr       where the data are: within the iov
/// @param fd        registered, or the negative value that hf3fs_reg_fd() returned
/// @param off       offset in the file, in bytes
/// @param len       in bytes; 1 or more
/// @param userdata  comes back in the completion
/// @return  index of the I/O: 0 or more;
///          -EINVAL: an argument is invalid, or the range leaves the iov;
///          -EBADF: the file is not registered;
///          -EACCES: it is not open for this;
///          -EAGAIN: the ring is full;
///          -EIO: the ring is damaged
HF3FS_API int hf3fs_prep_io(const struct hf3fs_ior* ior, const struct hf3fs_iov* iov, bool read, void* ptr,
                            int fd, size_t off, uint64_t len, const void* userdata);

/// Tells the daemon of prepared I/O.
HF3FS_API int hf3fs_submit_ios(const struct hf3fs_ior* ior);

/// Takes completions, in any order.
///
/// @param cqec         room in `cqes`; 1 or more
/// @param min_results  completions to wait for; at most `cqec` count
/// @param abs_timeout  waits until then, by CLOCK_REALTIME; NULL: forever
/// @return  number of completions, which may be less than min_results after the timeout; -EINVAL
HF3FS_API int hf3fs_wait_for_ios(const struct hf3fs_ior* ior, struct hf3fs_cqe* cqes, int cqec,
                                 int min_results, const struct timespec* abs_timeout);

/// Makes a second name for a file of a mount.
HF3FS_API int hf3fs_hardlink(const char* target, const char* link_name);

/// Makes ranges of a file holes, which read as zeros and take no space.
///
/// @param n      number of ranges
/// @param start  first byte of each
/// @param end    byte behind each
/// @param flags  0
HF3FS_API int hf3fs_punchhole(int fd, int n, const size_t* start, const size_t* end, size_t flags);

#ifdef __cplusplus
}
#endif
