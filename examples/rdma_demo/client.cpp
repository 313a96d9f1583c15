#include <ostream>
#include <stdexcept>

#include "plan.hpp"
#include "side.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;

namespace {

Step SendRequest(const Side& side, int round) {
  return {.prepare =
              [&side, round] {
                Fill(side.memory(), side.out_slot(), Request(round));
                Clear(side.memory(), side.in_slot());
                side.connection().PostReceive(side.Local(side.in_slot()));
              },
          .run =
              [&side, round](host::Deadline deadline) {
                const Slot in = side.in_slot(), out = side.out_slot();
                side.connection().Perform("send " + std::to_string(out.bytes) + " bytes",
                                          device::Send(side.Local(out)), deadline);
                const device::Received answer = side.connection().Receive(deadline);
                if (answer.bytes != in.bytes || answer.has_imm)
                  throw std::runtime_error("The server sent " + std::to_string(answer.bytes) +
                                           " bytes, not " + std::to_string(in.bytes) +
                                           ". Run programs of the same version.");
                return "sent " + std::to_string(Request(round).first) + " and on, received " +
                       Verify(side.memory(), in, Answer(round));
              }};
}

/// The completion shows whether the server supports the read.
Step ReadFromServer(const Side& side) {
  return {.prepare = [&side] { Clear(side.memory(), side.in_slot()); },
          .run =
              [&side](host::Deadline deadline) {
                const Slot in = side.in_slot();
                side.connection().Perform("read " + std::to_string(in.bytes) + " bytes by RDMA",
                                          device::Read(side.PeersOutSlot(), side.Local(in)), deadline);
                return "supported, read " + Verify(side.memory(), in, kRead);
              },
          .may_be_refused = true};
}

Step AwaitWrite(const Side& side) {
  return {.prepare =
              [&side] {
                Clear(side.memory(), side.in_slot());
                side.connection().PostReceive({});  // the notification has no payload
              },
          .run =
              [&side](host::Deadline deadline) {
                const device::Received notification = side.connection().Receive(deadline);
                if (!notification.is_write || notification.imm != warpverbs::mlx5::ToBe32(kWrittenImm))
                  throw std::runtime_error(
                      "The message is not the write's notification. Run programs of the same version.");
                return "notified of " + Verify(side.memory(), side.in_slot(), kWritten);
              }};
}

}  // namespace

bool RunClient(const Options& options, std::ostream& out) {
  Side side(Role::kClient, options, out);
  return side.RunAndSummarize([&] {
    side.ConnectToServer();
    for (int round = 1; round <= kRounds; ++round) side.Run(SendRequest(side, round));
    side.Run(ReadFromServer(side));
    side.Run(AwaitWrite(side));
  });
}

}  // namespace rdma_demo
