#include <ostream>
#include <stdexcept>

#include "party.hpp"
#include "plan.hpp"
#include "sides.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;

namespace {

Step SendRequest(const Party& party, int round) {
  return {.prepare =
              [&party, round] {
                Fill(party.memory(), party.out_slot(), Request(round));
                Clear(party.memory(), party.in_slot());
                party.connection().PostReceive(party.Local(party.in_slot()));
              },
          .act =
              [&party, round](host::Deadline deadline) {
                const Slot in = party.in_slot(), out = party.out_slot();
                party.connection().Perform("send " + std::to_string(out.bytes) + " bytes",
                                           device::Send(party.Local(out)), deadline);
                const device::Received answer = party.connection().Receive(deadline);
                if (answer.bytes != in.bytes || answer.has_imm)
                  throw std::runtime_error("The server sent " + std::to_string(answer.bytes) +
                                           " bytes, not " + std::to_string(in.bytes) +
                                           ". Run programs of the same version.");
                return "sent " + std::to_string(Request(round).first) + " and on, received " +
                       Verify(party.memory(), in, Answer(round));
              }};
}

/// Whether it is supported, its completion says.
Step ReadFromServer(const Party& party) {
  return {.prepare = [&party] { Clear(party.memory(), party.in_slot()); },
          .act =
              [&party](host::Deadline deadline) {
                const Slot in = party.in_slot();
                party.connection().Perform("read " + std::to_string(in.bytes) + " bytes by RDMA",
                                           device::Read(party.PeersOutSlot(), party.Local(in)), deadline);
                return "supported, read " + Verify(party.memory(), in, kRead);
              },
          .may_be_refused = true};
}

Step AwaitWrite(const Party& party) {
  return {.prepare =
              [&party] {
                Clear(party.memory(), party.in_slot());
                party.connection().PostReceive({});  // the notification brings nothing else
              },
          .act =
              [&party](host::Deadline deadline) {
                const device::Received notification = party.connection().Receive(deadline);
                if (!notification.is_write || notification.imm != warpverbs::mlx5::ToBe32(kWrittenImm))
                  throw std::runtime_error(
                      "Something else came than the write's notification. Run programs of the same version.");
                return "notified of " + Verify(party.memory(), party.in_slot(), kWritten);
              }};
}

}  // namespace

bool Visit(const Options& options, std::ostream& out) {
  Party party(Role::kClient, options, out);
  return party.SumUp([&] {
    party.MeetServer();
    for (int round = 1; round <= kRounds; ++round) party.Run(SendRequest(party, round));
    party.Run(ReadFromServer(party));
    party.Run(AwaitWrite(party));
  });
}

}  // namespace rdma_demo
