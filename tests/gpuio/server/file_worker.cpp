// A client that opens files and reads one of them until somebody kills it. `gpuio_file_worker PORT`
#include <fcntl.h>

#include <cstdio>
#include <exception>

#include "gpuio/common/rig.hpp"

namespace gpuio = warpverbs::gpuio;

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  gpuio::Client client({.servers = {{"127.0.0.1", static_cast<uint16_t>(std::stoi(argv[1]))}}});
  for (int i = 0; i < 20; ++i) client.MustOpen("file", O_RDONLY);
  const uint64_t file = client.MustOpen("file", O_RDONLY);
  gpuio::Memory memory(100'000);
  std::puts("running");
  std::fflush(stdout);
  while (client.Read(file, 0, memory.Remote()).result == 100'000) continue;
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
