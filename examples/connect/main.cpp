// Connects to an endpoint of another process: prints its own line, reads the peer's, says what came of it.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

int main() try {
  namespace host = warpverbs::host;
  const host::Device device;
  host::Endpoint endpoint(device);
  std::cout << endpoint.Info().ToText() << std::endl;  // the peer waits for it
  std::string line;
  std::getline(std::cin, line);
  endpoint.Connect(host::EndpointInfo::FromText(line));
  std::cerr << endpoint.Describe();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
