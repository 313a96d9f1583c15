// A user's program that moves data by a transport.
#include <cstdio>
#include <vector>

#include "warpverbs/transport/rdma_transport.hpp"

int main() {
  using namespace warpverbs::transport;
  RdmaTransport a(0), b(0);
  const Bound at_a = a.Bind(), at_b = b.Bind();
  if (!a.Connect(at_b.url).ok() || !b.Connect(at_a.url).ok()) return 1;
  std::vector<char> from(64, 'x'), to(64);
  const RdmaMemory source(from.data(), from.size(), 0), target(to.data(), to.size(), 0);
  const Status status = a.Write(source.CreateView(), target.Remote()).get();
  std::printf("%s\n", status.Describe().c_str());
  return status.ok() && to == from ? 0 : 1;
}
