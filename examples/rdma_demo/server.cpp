#include <ostream>
#include <stdexcept>

#include "party.hpp"
#include "plan.hpp"
#include "sides.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;

namespace {

Step AnswerRequest(const Party& party) {
  return {.prepare =
              [&party] {
                Clear(party.memory(), party.in_slot());
                party.connection().PostReceive(party.Local(party.in_slot()));
              },
          .act =
              [&party](host::Deadline deadline) {
                const Slot in = party.in_slot(), out = party.out_slot();
                const device::Received request = party.connection().Receive(deadline);
                if (request.bytes != in.bytes || request.has_imm)
                  throw std::runtime_error("The client sent " + std::to_string(request.bytes) +
                                           " bytes, not " + std::to_string(in.bytes) +
                                           ". Run programs of the same version.");
                party.memory().Double(in.offset, out.offset, in.bytes, deadline);
                party.connection().Perform("send " + std::to_string(out.bytes) + " bytes",
                                           device::Send(party.Local(out)), deadline);
                return "doubled " + std::to_string(in.bytes / sizeof(int32_t)) + " integers";
              }};
}

Step LetRead(const Party& party) {
  return {.prepare = [&party] { Fill(party.memory(), party.out_slot(), kRead); },
          .act = [](host::Deadline) { return std::string("the client has read"); }};
}

Step WriteToClient(const Party& party) {
  return {.prepare = [&party] { Fill(party.memory(), party.out_slot(), kWritten); },
          .act =
              [&party](host::Deadline deadline) {
                const Slot out = party.out_slot();
                party.connection().Perform("write " + std::to_string(out.bytes) + " bytes by RDMA",
                                           device::WriteImm(party.PeersInSlot(), party.Local(out),
                                                            warpverbs::mlx5::ToBe32(kWrittenImm)),
                                           deadline);
                return "wrote " + std::to_string(out.bytes) + " bytes, with a notification";
              }};
}

}  // namespace

bool Serve(host::TcpListener listener, const Options& options, std::ostream& out) {
  Party party(Role::kServer, options, out);
  return party.SumUp([&] {
    party.MeetClient(std::move(listener));
    for (int round = 1; round <= kRounds; ++round) party.Run(AnswerRequest(party));
    party.Run(LetRead(party));
    party.Run(WriteToClient(party));
  });
}

}  // namespace rdma_demo
