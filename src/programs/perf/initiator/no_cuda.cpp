#include "perf/initiator/initiator.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::perf {

std::string WhyNoKernels() { return "this warpverbs-perf was built without CUDA"; }

std::unique_ptr<Initiator> GpuInitiator(const host::Gpu& gpu) {
  throw host::Error("post from", gpu.name(), WhyNoKernels(),
                    "Build it with -D WARPVERBS_CUDA=ON, or take --initiator cpu");
}

}  // namespace warpverbs::perf
