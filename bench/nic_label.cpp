#include "nic_label.hpp"

#include <fstream>

namespace warpverbs::bench {

std::string NicLabel(const host::Device& device) {
  std::string board;
  std::ifstream(std::string(device.context()->device->ibdev_path) + "/board_id") >> board;
  if (board.starts_with("SOFTHCA")) return "softhca, a software HCA: processor time, no network figure";
  return device.name() + ", board " + board;
}

}  // namespace warpverbs::bench
