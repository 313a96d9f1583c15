#include <errno.h>
#include <hf3fs_usrbio.h>
#include <hf3fs_usrbio_gdr.h>
#include <string.h>

/* There is no mount: what can be told apart without one is. */
int main(void) {
  struct hf3fs_iov iov;
  memset(&iov, 0, sizeof iov);
  if (hf3fs_ior_size(64) != 10384) return 1;
  if (hf3fs_iovcreate(&iov, "", 4096, 0, -1) != -EINVAL) return 2;
  if (hf3fs_iovcreate(&iov, "/proc", 4096, 0, -1) != -ENOENT) return 3;
  if (hf3fs_iov_is_gpu(&iov)) return 4;
  hf3fs_iovdestroy(&iov);
  return 0;
}
