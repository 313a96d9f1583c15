#include "wire/packet_responder.hpp"

namespace softhca {

PacketResponder::PacketResponder(QueuePair&, PacketSink&) {}
PacketResponder::~PacketResponder() = default;
void PacketResponder::OnRequest(const Packet&, uint64_t) {}
void PacketResponder::Flush() {}

}  // namespace softhca
