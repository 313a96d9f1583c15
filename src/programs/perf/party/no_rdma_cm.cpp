#include "perf/party/party.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::perf {

class CmLine {};

std::vector<std::shared_ptr<CmLine>> ConnectByRdmaCm(std::deque<host::Endpoint>&, const Options&, Talk&) {
  throw host::Error("connect", "by rdma_cm", "this warpverbs-perf was built without librdmacm",
                    "Install librdmacm-dev and build it again, or leave out -R");
}

}  // namespace warpverbs::perf
