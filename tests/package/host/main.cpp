// A user's program: it links the host library and runs under the installed software HCA.
#include <cstdio>
#include <exception>

#include "warpverbs/host/device.hpp"

int main() try {
  const warpverbs::host::Device device;
  std::printf("%s has %zu port(s)\n", device.name().c_str(), device.Ports().size());
  return device.Ports().empty() ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
