#include "common/board.hpp"

#include <infiniband/verbs.h>

#include <fstream>

namespace warpverbs::programs {

std::string BoardOf(const host::Device& device) {
  std::string board;
  std::ifstream(std::string(device.context()->device->ibdev_path) + "/board_id") >> board;
  return board;
}

}  // namespace warpverbs::programs
