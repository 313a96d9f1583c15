// The programs rdma_server and rdma_client.
//
// They teach posting from the host: messages, a read and a write between two processes, with the data in
// memory of the host or of any accelerator. The steps are in server.cpp and client.cpp: read these first.
#include <iostream>
#include <string_view>

#include "side.hpp"

int main(int argc, char** argv) {
  using namespace rdma_demo;
  constexpr bool kIsServer = std::string_view(PROGRAM) == "rdma_server";
  return RunProgram(argc, argv, kIsServer ? Role::kServer : Role::kClient, [](const Options& options) {
    if (!kIsServer) return RunClient(options, std::cout);
    return RunServer(warpverbs::host::TcpListener({"", options.port}), options, std::cout);
  });
}
