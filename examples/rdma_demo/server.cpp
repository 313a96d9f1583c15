#include <ostream>
#include <stdexcept>

#include "plan.hpp"
#include "side.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;

namespace {

Step AnswerRequest(const Side& side) {
  return {.prepare =
              [&side] {
                Clear(side.memory(), side.in_slot());
                side.connection().PostReceive(side.Local(side.in_slot()));
              },
          .run =
              [&side](host::Deadline deadline) {
                const Slot in = side.in_slot(), out = side.out_slot();
                const device::Received request = side.connection().Receive(deadline);
                if (request.bytes != in.bytes || request.has_imm)
                  throw std::runtime_error("The client sent " + std::to_string(request.bytes) +
                                           " bytes, not " + std::to_string(in.bytes) +
                                           ". Run programs of the same version.");
                side.memory().Double(in.offset, out.offset, in.bytes, deadline);
                side.connection().Perform("send " + std::to_string(out.bytes) + " bytes",
                                          device::Send(side.Local(out)), deadline);
                return "doubled " + std::to_string(in.bytes / sizeof(int32_t)) + " integers";
              }};
}

Step LetRead(const Side& side) {
  return {.prepare = [&side] { Fill(side.memory(), side.out_slot(), kRead); },
          .run = [](host::Deadline) { return std::string("the client has read"); }};
}

Step WriteToClient(const Side& side) {
  return {.prepare = [&side] { Fill(side.memory(), side.out_slot(), kWritten); },
          .run =
              [&side](host::Deadline deadline) {
                const Slot out = side.out_slot();
                side.connection().Perform("write " + std::to_string(out.bytes) + " bytes by RDMA",
                                          device::WriteImm(side.PeersInSlot(), side.Local(out),
                                                           warpverbs::mlx5::ToBe32(kWrittenImm)),
                                          deadline);
                return "wrote " + std::to_string(out.bytes) + " bytes, with a notification";
              }};
}

}  // namespace

bool RunServer(host::TcpListener listener, const Options& options, std::ostream& out) {
  Side side(Role::kServer, options, out);
  return side.RunAndSummarize([&] {
    side.AcceptClient(std::move(listener));
    for (int round = 1; round <= kRounds; ++round) side.Run(AnswerRequest(side));
    side.Run(LetRead(side));
    side.Run(WriteToClient(side));
  });
}

}  // namespace rdma_demo
