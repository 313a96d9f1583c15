// Has a server double integers, reads the server's memory and checks what the server writes.
#include <iostream>

#include "rdma_demo/sides.hpp"

int main(int argc, char** argv) {
  return rdma_demo::RunProgram(argc, argv, rdma_demo::Role::kClient, [](const rdma_demo::Options& options) {
    return rdma_demo::Visit(options, std::cout);
  });
}
