#include "nic_label.hpp"

#include <stdexcept>

#include "common/device_selection.hpp"

namespace warpverbs::bench {

std::string NicLabel(const host::Device& device) {
  const std::string board = programs::BoardOf(device);
  if (programs::IsSoftwareBoard(board))
    return "softhca, a software HCA: processor time, not a network figure";
  return device.name() + ", board " + board;
}

std::string NicOf(int argc, char** argv) {
  if (argc == 1) return host::FirstActiveDevice();
  if (argc == 2 && *argv[1] != '-') return argv[1];
  throw std::invalid_argument(std::string("there is no option ") + argv[1] +
                              "; the only argument is the name of a NIC, such as mlx5_0");
}

}  // namespace warpverbs::bench
