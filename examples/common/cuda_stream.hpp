// What a kernel on an NVIDIA GPU needs: a stream, and memory for its result.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

/// Throws std::runtime_error unless a call of the CUDA runtime succeeded.
inline void CheckCuda(cudaError_t error, const std::string& step) {
  if (error != cudaSuccess)
    throw std::runtime_error("Cannot " + step + ": " + cudaGetErrorString(error) + ".");
}

/// A stream that waits for no other work. A thread that waits for it sleeps until the GPU wakes it.
class CudaStream {
 public:
  explicit CudaStream(int gpu) : gpu_("cuda:" + std::to_string(gpu)) {
    CheckCuda(cudaSetDevice(gpu), "use " + gpu_);
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream on " + gpu_);
    if (const cudaError_t error =
            cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming)) {
      cudaStreamDestroy(stream_);
      CheckCuda(error, "create an event on " + gpu_);
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

  /// Waits for kernels that end by themselves, because each of their waits has a deadline.
  void Wait() const {
    CheckCuda(cudaEventRecord(done_, stream_), "run the kernel on " + gpu_);
    CheckCuda(cudaEventSynchronize(done_), "run the kernel on " + gpu_);
  }

  /// Waits until a deadline. Kernels on the stream continue after it.
  ///
  /// @errors  std::runtime_error: the deadline passed, or a kernel failed
  void WaitUntil(std::chrono::steady_clock::time_point deadline) const {
    constexpr std::chrono::microseconds kPollInterval(50);
    CheckCuda(cudaEventRecord(done_, stream_), "run the kernel on " + gpu_);
    cudaError_t result = cudaEventQuery(done_);
    for (; result == cudaErrorNotReady; result = cudaEventQuery(done_)) {
      (void)cudaGetLastError();  // the check of the next launch must not find this result
      if (std::chrono::steady_clock::now() >= deadline) {
        throw std::runtime_error("Cannot run the kernel on " + gpu_ +
                                 ": it did not finish in time. See with nvidia-smi and dmesg what the GPU is "
                                 "busy with, or wait longer.");
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    CheckCuda(result, "run the kernel on " + gpu_);
  }

 private:
  std::string gpu_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
};

/// A value in GPU memory that a kernel changes.
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

  /// Waits for the kernels on the stream and returns the value.
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
