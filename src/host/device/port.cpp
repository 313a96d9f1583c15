#include "warpverbs/host/port.hpp"

namespace warpverbs::host {

const char* ToString(LinkLayer link_layer) {
  return link_layer == LinkLayer::kEthernet ? "Ethernet" : "InfiniBand";
}

}  // namespace warpverbs::host
