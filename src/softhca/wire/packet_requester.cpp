#include "wire/packet_requester.hpp"

namespace softhca {

PacketRequester::PacketRequester(QueuePair&, PacketSink&) {}
PacketRequester::~PacketRequester() = default;
bool PacketRequester::Run(uint64_t) { return false; }
void PacketRequester::OnAnswer(const Packet&, uint64_t) {}
uint64_t PacketRequester::NextNs() const { return UINT64_MAX; }

}  // namespace softhca
