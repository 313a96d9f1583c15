// Doubles the integers of a client where its memory is, lets the client read, and writes to it.
#include <iostream>

#include "rdma_demo/sides.hpp"

int main(int argc, char** argv) {
  return rdma_demo::RunProgram(argc, argv, rdma_demo::Role::kServer, [](const rdma_demo::Options& options) {
    return rdma_demo::Serve(warpverbs::host::TcpListener({"", options.port}), options, std::cout);
  });
}
