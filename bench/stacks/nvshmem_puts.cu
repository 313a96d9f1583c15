// Times puts and signals of NVSHMEM; see puts.hpp.
//
// Usage: nvshmem_puts RANK ID_FILE NAME
#include "../../tests/gpu/stacks/nvshmem.hpp"
#include "puts.hpp"

namespace {

struct Nvshmem {
  uint64_t *source, *target, *signal;
  int peer;

  class Poster {
   public:
    __device__ explicit Poster(const Nvshmem& library) : library_(library) {}
    __device__ void Put(uint32_t i) {
      nvshmem_putmem_nbi(library_.target + i, library_.source + i, 8, library_.peer);
    }
    __device__ void Quiet() { nvshmem_quiet(); }
    __device__ void Signal(uint64_t value) {
      nvshmemx_signal_op(library_.signal, value, NVSHMEM_SIGNAL_SET, library_.peer);
    }
    __device__ void PutSignal(uint32_t i, uint64_t value) {
      nvshmem_putmem_signal_nbi(library_.target + i, library_.source + i, 8, library_.signal, value,
                                NVSHMEM_SIGNAL_SET, library_.peer);
    }
    __device__ bool WaitSignal(uint64_t value) {
      nvshmem_signal_wait_until(library_.signal, NVSHMEM_CMP_GE, value);
      return true;
    }
    __device__ bool ok() const { return true; }

   private:
    const Nvshmem& library_;
  };
};

class Side {
 public:
  explicit Side(int rank) : rank_(rank) {
    source_ = static_cast<uint64_t*>(nvshmem_malloc(stacks::kStream * 8));
    target_ = static_cast<uint64_t*>(nvshmem_malloc(stacks::kStream * 8));
    signal_ = static_cast<uint64_t*>(nvshmem_calloc(1, 8));
  }
  int rank() const { return rank_; }
  Nvshmem library() const { return {source_, target_, signal_, 1 - rank_}; }
  uint64_t* source() const { return source_; }
  uint64_t* target() const { return target_; }
  void Barrier() const { nvshmem_barrier_all(); }

 private:
  const int rank_;
  uint64_t *source_, *target_, *signal_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "Usage: nvshmem_puts RANK ID_FILE NAME\n");
    return 2;
  }
  const int rank = std::atoi(argv[1]);
  if (!stacks::InitNvshmem(rank, argv[2])) return 1;
  Side side(rank);
  const int status = stacks::Run<Nvshmem>(side, argv[3]);
  nvshmem_finalize();
  return status;
}
