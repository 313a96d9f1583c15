// What a kernel on an NVIDIA GPU needs: its block of threads, a stream, and a place for its result.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

/// The calling thread's block.
struct CudaTeam {
  __device__ uint32_t Rank() const { return threadIdx.x; }
  __device__ uint32_t Size() const { return blockDim.x; }
  __device__ void Sync() const { __syncthreads(); }
};

inline void CheckCuda(cudaError_t error, const std::string& step) {
  if (error != cudaSuccess)
    throw std::runtime_error("Cannot " + step + ": " + cudaGetErrorString(error) + ".");
}

/// A stream that waits for no other work. Who waits for it sleeps until the GPU wakes it.
class CudaStream {
 public:
  explicit CudaStream(int gpu) : gpu_("cuda:" + std::to_string(gpu)) {
    CheckCuda(cudaSetDevice(gpu), "use " + gpu_);
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream on " + gpu_);
    if (const cudaError_t error =
            cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming)) {
      cudaStreamDestroy(stream_);
      CheckCuda(error, "make an event on " + gpu_);
    }
  }
  ~CudaStream() {
    cudaEventDestroy(done_);
    cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  const std::string& gpu() const { return gpu_; }

  /// For kernels that end by themselves, since each of their waits has a deadline.
  void Wait() const {
    CheckCuda(cudaEventRecord(done_, stream_), "run the kernel on " + gpu_);
    CheckCuda(cudaEventSynchronize(done_), "run the kernel on " + gpu_);
  }

  /// The same, and gives up then. What runs on the stream is not ended by that.
  void WaitUntil(std::chrono::steady_clock::time_point deadline) const {
    constexpr std::chrono::microseconds kBetweenLooks(50);
    CheckCuda(cudaEventRecord(done_, stream_), "run the kernel on " + gpu_);
    cudaError_t answer = cudaEventQuery(done_);
    for (; answer == cudaErrorNotReady; answer = cudaEventQuery(done_)) {
      (void)cudaGetLastError();  // who checks the next launch must not find this answer
      if (std::chrono::steady_clock::now() >= deadline) {
        throw std::runtime_error("Cannot run the kernel on " + gpu_ +
                                 ": it has not ended in time. See with nvidia-smi and dmesg what the GPU is "
                                 "busy with, or wait longer.");
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
    CheckCuda(answer, "run the kernel on " + gpu_);
  }

 private:
  std::string gpu_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
};

/// A value on the GPU that a kernel changes.
template <class T>
class CudaValue {
 public:
  CudaValue(const CudaStream& stream, const T& value) : stream_(stream) {
    T* memory = nullptr;
    CheckCuda(cudaMalloc(&memory, sizeof(T)), "allocate memory on " + stream.gpu());
    memory_.reset(memory);
    CheckCuda(cudaMemcpyAsync(memory, &value, sizeof(T), cudaMemcpyHostToDevice, stream.get()),
              "write memory on " + stream.gpu());
    stream.Wait();
  }

  T* get() const { return memory_.get(); }

  /// What the kernels on the stream have made of it.
  T Read() const {
    T value;
    CheckCuda(cudaMemcpyAsync(&value, memory_.get(), sizeof(T), cudaMemcpyDeviceToHost, stream_.get()),
              "run the kernel on " + stream_.gpu());
    stream_.Wait();
    return value;
  }

 private:
  struct Free {
    void operator()(T* memory) const { cudaFree(memory); }
  };

  const CudaStream& stream_;
  std::unique_ptr<T, Free> memory_;
};
