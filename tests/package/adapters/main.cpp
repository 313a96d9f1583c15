// A user's program that connects by other libraries: it links their adapters, and runs without a device.
#include <cstdio>

#include "warpverbs/host/mpi_exchange.hpp"
#include "warpverbs/host/rdma_cm.hpp"

int main() try {
  const warpverbs::host::MpiExchange exchange(MPI_COMM_NULL, 7);
  std::printf("%s\n", exchange.PeerName().c_str());
  warpverbs::host::CmListener();
  return 0;
} catch (const warpverbs::host::Error& error) {
  std::printf("%s\n", error.what());  // this machine has no rdma_cm, which is fine
  return 0;
}
