// Preloaded by bench.py --fsync-delay-ms: every sync takes RT_BENCH_SYNC_DELAY_US longer, as on a
// slower disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void Delay(void) {
  const char* text = getenv("RT_BENCH_SYNC_DELAY_US");
  const long us = text == NULL ? 0 : atol(text);
  struct timespec left = {us / 1000000, us % 1000000 * 1000};
  while (nanosleep(&left, &left) != 0) {
  }
}

#define SLOW(name)                                             \
  int name(int fd) {                                           \
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name);  \
    Delay();                                                   \
    return real(fd);                                           \
  }

SLOW(fsync)
SLOW(fdatasync)
SLOW(syncfs)
