// Times puts and signals of NCCL's device API, whose proxy posts; see puts.hpp.
//
// Usage: gin_puts RANK ID_FILE NAME
#include "../../tests/gpu/stacks/gin.hpp"
#include "puts.hpp"

namespace {

constexpr size_t kTargetOffset = (stacks::kStream * 8 + 4095) / 4096 * 4096;

struct Gin {
  ncclDevComm comm;
  ncclWindow_t window;
  int peer;

  class Poster {
   public:
    __device__ explicit Poster(const Gin& library) : library_(library), gin_(library.comm, 0) {}
    __device__ void Put(uint32_t i) { PutWith(i, ncclGin_None{}); }
    __device__ void Quiet() { gin_.flush(ncclCoopThread()); }
    __device__ void Signal(uint64_t) { gin_.signal(World(), library_.peer, ncclGin_SignalInc{0}); }
    __device__ void PutSignal(uint32_t i, uint64_t) { PutWith(i, ncclGin_SignalInc{0}); }
    __device__ bool WaitSignal(uint64_t value) {
      gin_.waitSignal(ncclCoopThread(), 0,
                      value);  // each signal adds 1, so the signal's value is the last one's
      return true;
    }
    __device__ bool ok() const { return true; }

   private:
    __device__ ncclTeam World() const { return ncclTeamWorld(library_.comm); }
    template <class Action>
    __device__ void PutWith(uint32_t i, Action action) {
      gin_.put(World(), library_.peer, library_.window, kTargetOffset + 8ull * i, library_.window, 8ull * i,
               8, action);
    }

    const Gin& library_;
    ncclGin gin_;
  };
};

class Side {
 public:
  Side(int rank, const std::string& id_file) : gin_(rank, id_file, 2 * kTargetOffset) {}

  int rank() const { return gin_.rank(); }
  Gin library() const { return {gin_.device(), gin_.window(), gin_.peer()}; }
  uint64_t* source() const { return gin_.memory(); }
  uint64_t* target() const { return gin_.memory() + kTargetOffset / 8; }
  void Barrier() const {
    stacks::GinBarrier<<<1, 32>>>(gin_.device());
    stacks::Check(cudaDeviceSynchronize(), "GinBarrier");
    gin_.CheckProxy();
  }

 private:
  stacks::GinRank gin_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "Usage: gin_puts RANK ID_FILE NAME\n");
    return 2;
  }
  Side side(std::atoi(argv[1]), argv[2]);
  return stacks::Run<Gin>(side, argv[3]);
}
