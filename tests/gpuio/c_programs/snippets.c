#define _GNU_SOURCE
#include "snippets.h"

#include <errno.h>
#include <fcntl.h>
#include <hf3fs_usrbio.h>
#include <hf3fs_usrbio_gdr.h>
#include <string.h>
#include <unistd.h>

#define STEP(number, condition) \
  do {                          \
    if (!(condition)) {         \
      result = (number);        \
      goto out;                 \
    }                           \
  } while (0)

static int transfer(struct hf3fs_ior* ior, struct hf3fs_iov* iov, bool read, int fd, size_t bytes) {
  struct hf3fs_cqe cqe;
  if (hf3fs_prep_io(ior, iov, read, iov->base, fd, 0, bytes, iov) < 0) return -1;
  if (hf3fs_submit_ios(ior) != 0) return -1;
  if (hf3fs_wait_for_ios(ior, &cqe, 1, 1, NULL) != 1) return -1;
  return cqe.userdata == iov && cqe.result == (int64_t)bytes ? 0 : -1;
}

/* Writes a file by one ring, and reads it by another. */
int snippet_write_and_read(const char* mount, const char* path) {
  enum { kBytes = 1 << 16 };
  struct hf3fs_iov iov = {0};
  struct hf3fs_ior reads = {0}, writes = {0};
  char found[256];
  int result = 0, fd = -1;
  STEP(1, hf3fs_iovcreate(&iov, mount, kBytes, 0, -1) == 0);
  STEP(2, hf3fs_iorcreate(&reads, mount, 64, true, 0, -1) == 0);
  STEP(3, hf3fs_iorcreate4(&writes, mount, 64, false, 0, 0, -1, 0) == 0);
  fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  STEP(4, fd >= 0 && hf3fs_is_hf3fs(fd));
  STEP(5, hf3fs_extract_mount_point(found, sizeof found, path) == (int)strlen(mount) + 1 &&
              strcmp(found, mount) == 0);
  STEP(6, hf3fs_reg_fd(fd, 0) <= 0);
  memset(iov.base, 'x', kBytes);
  STEP(7, transfer(&writes, &iov, false, fd, kBytes) == 0);
  memset(iov.base, 0, kBytes);
  STEP(8, transfer(&reads, &iov, true, fd, kBytes) == 0);
  STEP(9, iov.base[0] == 'x' && memcmp(iov.base, iov.base + 1, kBytes - 1) == 0);
out:
  hf3fs_dereg_fd(fd);
  if (fd >= 0) close(fd);
  hf3fs_iordestroy(&writes);
  hf3fs_iordestroy(&reads);
  hf3fs_iovdestroy(&iov);
  return result;
}

/* Reads the blocks of a file into slots of a buffer, as an inference engine fetches its cache. */
int snippet_many_reads(const char* mount, const char* path, size_t block, int blocks) {
  struct hf3fs_iov iov = {0};
  struct hf3fs_ior ior = {0};
  struct hf3fs_cqe cqes[16];
  int result = 0, fd = -1, done = 0;
  STEP(1, hf3fs_iovcreate(&iov, mount, block * (size_t)blocks, 0, -1) == 0);
  STEP(2, hf3fs_iorcreate4(&ior, mount, blocks, true, -4, 10, -1, 0) == 0);
  STEP(3, hf3fs_io_entries(&ior) == blocks);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  STEP(4, fd >= 0);
  const int registered = hf3fs_reg_fd(fd, 0);
  STEP(5, registered <= 0);
  for (int i = 0; i < blocks; ++i) {
    void* const slot = iov.base + block * (size_t)i;
    STEP(6, hf3fs_prep_io(&ior, &iov, true, slot, i % 2 == 0 ? fd : registered, block * (size_t)i, block,
                          slot) >= 0);
  }
  STEP(7, hf3fs_prep_io(&ior, &iov, true, iov.base, fd, 0, block, NULL) == -EAGAIN);
  STEP(8, hf3fs_submit_ios(&ior) == 0);
  while (done < blocks) {
    const int count = hf3fs_wait_for_ios(&ior, cqes, 16, 1, NULL);
    STEP(9, count > 0);
    for (int i = 0; i < count; ++i) STEP(10, cqes[i].result == (int64_t)block);
    done += count;
  }
  for (int i = 0; i < blocks; ++i) STEP(11, iov.base[block * (size_t)i] == 'a' + i);
out:
  hf3fs_dereg_fd(fd);
  if (fd >= 0) close(fd);
  hf3fs_iordestroy(&ior);
  hf3fs_iovdestroy(&iov);
  return result;
}

/* Writes a file out of GPU memory, and reads it into other GPU memory. */
int snippet_gpu_round_trip(const char* mount, const char* path, size_t size, int gpu) {
  struct hf3fs_iov from = {0}, to = {0};
  struct hf3fs_ior reads = {0}, writes = {0};
  int result = 0, fd = -1;
  STEP(1, hf3fs_gdr_available() && gpu < hf3fs_gdr_device_count());
  STEP(2, hf3fs_iovcreate_gpu(&from, mount, size, 0, gpu) == 0);
  STEP(3, hf3fs_iovcreate_device(&to, mount, size, 0, gpu) == 0);
  STEP(4, hf3fs_iov_is_gpu(&from) && hf3fs_iov_gpu_device(&to) == gpu &&
              hf3fs_iov_mem_type(&to) == HF3FS_MEM_DEVICE);
  STEP(5, hf3fs_iorcreate(&reads, mount, 8, true, 0, -1) == 0);
  STEP(6, hf3fs_iorcreate(&writes, mount, 8, false, 0, -1) == 0);
  fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  STEP(7, fd >= 0 && hf3fs_reg_fd(fd, 0) <= 0);
  STEP(8, hf3fs_iovsync_gpu(&from, 0) == 0);
  STEP(9, transfer(&writes, &from, false, fd, size) == 0);
  STEP(10, transfer(&reads, &to, true, fd, size) == 0);
  STEP(11, hf3fs_iovsync(&to, 1) == 0);
out:
  hf3fs_dereg_fd(fd);
  if (fd >= 0) close(fd);
  hf3fs_iordestroy(&writes);
  hf3fs_iordestroy(&reads);
  hf3fs_iovdestroy_gpu(&to);
  hf3fs_iovdestroy(&from);
  return result;
}
