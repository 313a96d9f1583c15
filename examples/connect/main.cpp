// Connects endpoints of two processes. Each prints the description of its endpoint as one line, and reads the
// peer's line. It teaches that a description is text: any channel between two processes can carry it.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

int main(int argc, char** argv) try {
  namespace host = warpverbs::host;
  if (argc > 1) {
    const bool help = std::string(argv[1]) == "--help";
    std::fprintf(
        help ? stdout : stderr,
        "Teaches connecting by text: prints a line for the peer, and reads the peer's line from standard "
        "input. Options: --help.\n");
    return help ? 0 : 2;
  }
  const host::Device device;
  host::Endpoint endpoint(device);
  std::cout << endpoint.Info().Serialize() << std::endl;  // the peer waits for this line
  std::string line;
  std::getline(std::cin, line);
  endpoint.Connect(host::EndpointInfo::Parse(line));
  std::cerr << endpoint.Describe();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
