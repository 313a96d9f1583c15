#include <cstdio>

#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using device::Code;
using device::RequestError;
using mlx5::WqeOpcode;

const char* Describe(RequestError error) {
  switch (error) {
    case RequestError::kNone:
      return "no error was found";
    case RequestError::kTooManySlots:
      return "it takes more WQEBBs than the queue has, or than its batch has left, or gathers more than 30 "
             "entries";
    case RequestError::kMessageTooLong:
      return "it is longer than the device's longest message and cannot be split";
    case RequestError::kRefusedTicket:
      return "the ticket is of a post that was refused. Check the status of each post before you wait for it";
    case RequestError::kReleaseScope:
      return "the queue is in host memory, which the releases of arch::Cuda do not reach. Use "
             "arch::CudaSystem";
    case RequestError::kSharing:
      return "Contended posters need a queue of their own. Create the endpoint with "
             "EndpointConfig::contended "
             "for them, and without it for all others";
    case RequestError::kSecondPoster:
      return "another poster uses this exclusive queue. Let one SendQueue live at a time, or use Shared";
    case RequestError::kMisaligned:
      return "the address of an atomic is not a multiple of its size";
    case RequestError::kUnknownLkey:
      return "no region of this side has the lkey";
    case RequestError::kLocalOutOfBounds:
      return "the local buffer is not inside the region of its lkey";
    case RequestError::kLocalReadOnly:
      return "the NIC may not write to the local region";
    case RequestError::kUnknownRkey:
      return "no region of the peer has the rkey";
    case RequestError::kRemoteOutOfBounds:
      return "the remote range is not inside the region of its rkey";
    case RequestError::kRemoteRights:
      return "the peer's region does not allow the operation";
    case RequestError::kRelaxedOrdering:
      return "the peer's region has relaxed ordering, which neither atomics nor signals and their data may "
             "have";
    case RequestError::kSwappedKey:
      return "the key is that of a region with its bytes swapped. Keys are big-endian in a kernel: pass "
             "MemoryView::Local() or Remote()";
  }
  return "unknown error";
}

std::string DescribeError(const device::Status& status) {
  if (status.syndrome == 0) return "the queue has failed: a poster gave up after it reserved a WQE";
  return "the queue pair has failed: " + std::string(OperationName(status.opcode)) + " at WQE index " +
         std::to_string(status.wqe_index) + ": " +
         mlx5::Describe(static_cast<mlx5::Syndrome>(status.syndrome)) + " " +
         DescribeSyndrome(status.syndrome, status.vendor_syndrome);
}

}  // namespace

std::string Describe(const device::Status& status) {
  switch (status.code) {
    case Code::kOk:
      return "ok";
    case Code::kPending:
      return "pending: not complete yet";
    case Code::kFull:
      return "full: no slot is free, and nothing was posted";
    case Code::kTimeout:
      return "timeout: the deadline passed";
    case Code::kAborted:
      return "aborted: the abort word was set";
    case Code::kInvalid:
      return std::string("invalid, and nothing was posted: ") + Describe(status.request_error);
    case Code::kError:
      return "error: " + DescribeError(status);
  }
  return "unknown status";
}

std::string DescribeSyndrome(uint8_t syndrome, uint8_t vendor_syndrome) {
  char text[64];
  std::snprintf(text, sizeof text, "(syndrome 0x%02x, vendor syndrome 0x%02x)", syndrome, vendor_syndrome);
  return text;
}

const char* OperationName(uint8_t opcode) {
  switch (static_cast<WqeOpcode>(opcode)) {
    case WqeOpcode::kNop:
      return "NOP";
    case WqeOpcode::kSendInval:
      return "send with invalidate";
    case WqeOpcode::kRdmaWrite:
      return "RDMA write";
    case WqeOpcode::kRdmaWriteImm:
      return "RDMA write with immediate";
    case WqeOpcode::kSend:
      return "send";
    case WqeOpcode::kSendImm:
      return "send with immediate";
    case WqeOpcode::kWait:
      return "WAIT";
    case WqeOpcode::kRdmaRead:
      return "RDMA read";
    case WqeOpcode::kAtomicCs:
      return "compare-swap";
    case WqeOpcode::kAtomicFa:
      return "fetch-add";
    case WqeOpcode::kAtomicMaskedCs:
      return "masked compare-swap";
    case WqeOpcode::kAtomicMaskedFa:
      return "masked fetch-add";
    case WqeOpcode::kLocalInval:
      return "local invalidate";
    case WqeOpcode::kDump:
      return "DUMP";
    case WqeOpcode::kUmr:
      return "UMR";
  }
  return "unknown operation";
}

}  // namespace warpverbs::inline v0_2::host
