// Stands for a kernel's source: it needs the device headers and nothing else.
#include <cstdio>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/wqe.hpp"

int main() {
  const warpverbs::device::QueueView view{.depth = 4};
  std::printf("a queue of %u slots of %u bytes\n", view.depth, warpverbs::mlx5::kWqebbBytes);
  return view.depth * warpverbs::mlx5::kWqebbBytes == 256 ? 0 : 1;
}
