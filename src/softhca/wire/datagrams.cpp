#include "wire/datagrams.hpp"

namespace softhca {

bool SendDatagrams(QueuePair&, DatagramSink&) { return false; }
void OnDatagram(QueuePair&, const Packet&, const Frame&) {}

}  // namespace softhca
