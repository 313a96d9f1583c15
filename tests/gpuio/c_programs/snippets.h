#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns 0, or the number of the step that failed. */
int snippet_write_and_read(const char* mount, const char* path);
int snippet_many_reads(const char* mount, const char* path, size_t block, int blocks);
int snippet_gpu_round_trip(const char* mount, const char* path, size_t size, int gpu);

#ifdef __cplusplus
}
#endif
