// A user's program in C: the threads of a block wait for a signal together.
#include <stdio.h>

#include "warpverbs/device_abi.h"

struct Work {
  uint64_t signal;
  uint64_t results[4];
};

static void Kernel(void* argument, uint32_t thread) {
  struct Work* const work = argument;
  const uint64_t deadline_ns = wv_now_ns() + 10000000000;
  work->results[thread] = wv_signal_wait_block((uint64_t)&work->signal, WV_EQUAL, 7, deadline_ns, 0);
}

int main(void) {
  struct Work work = {7, {WV_ERROR, WV_ERROR, WV_ERROR, WV_ERROR}};
  if (wv_run_block(Kernel, &work, 4, 4) != 0) return 1;
  for (int i = 0; i < 4; ++i) {
    if (wv_code(work.results[i]) != WV_OK) return 1;
  }
  puts("the block has seen its signal");
  return 0;
}
