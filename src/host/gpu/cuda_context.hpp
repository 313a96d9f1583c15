#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gpu/cuda_driver.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

/// The primary context of a GPU, with a stream of our own.
class CudaContext {
 public:
  /// @errors  Error
  explicit CudaContext(int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  std::string name() const { return "cuda:" + std::to_string(ordinal_); }
  const std::string& model() const { return model_; }
  const std::string& pci_address() const { return pci_address_; }
  const GpuAttributes& attributes() const { return attributes_; }

  /// Makes the context current for a scope and restores the caller's context afterwards.
  class Current {
   public:
    explicit Current(const CudaContext& context);  // throws Error
    ~Current() { driver_.CtxPopCurrent(nullptr); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaDriver& driver_;
  };

  /// Maps host memory for kernels of all GPUs.
  ///
  /// @param flags  further flags for cuMemHostRegister()
  /// @errors  Error
  void Map(std::span<std::byte> memory, unsigned flags = 0) const;
  void Unmap(std::byte* memory) const;

  /// Returns where kernels of this GPU see mapped memory.
  ///
  /// @errors  Error
  CudaAddress DeviceAddressOf(std::byte* memory) const;

  /// Releases something in this context. For destructors: it ignores failures.
  template <class GiveBack>
  void Quietly(const GiveBack& give_back) const {
    if (driver_.CtxPushCurrent(context_) != 0) return;
    give_back(driver_);
    driver_.CtxPopCurrent(nullptr);
  }

  // Copies between host memory and this GPU's memory. Each throws Error if the driver fails.
  void CopyIn(CudaAddress to, std::span<const std::byte> from) const;
  void CopyOut(CudaAddress from, std::span<std::byte> to) const;

  /// Copies from this GPU's memory to memory of the same or another GPU.
  ///
  /// @pre  the ranges do not overlap
  /// @errors  Error: the driver fails
  void Copy(CudaAddress from, const CudaContext& to_gpu, CudaAddress to, size_t bytes) const;

  /// Sets this GPU's memory to a value.
  ///
  /// @errors  Error: the driver fails
  void Fill(CudaAddress at, size_t bytes, std::byte value) const;

  /// Sleeps until the work launched on a stream so far has finished. nullptr means every stream of the
  /// context.
  ///
  /// @errors  Error: the deadline passed; a kernel failed; the stream is invalid; stream is nullptr and the
  /// driver is older than CUDA 12.5 (EOPNOTSUPP) or a stream is being captured
  /// @source  CUDA driver API 13.0, cuEventRecord(), cuCtxRecordEvent(), cuEventQuery()
  void Finish(CUstream_st* stream, Deadline deadline) const;

  /// Makes NIC writes to this GPU's memory visible to its kernels. With a stream: at the latest to the work
  /// launched on it afterwards.
  ///
  /// @param deadline  limit for our own stream, on GPUs where only streams flush
  /// @errors  Error: the GPU neither orders such writes nor flushes them; the driver fails
  /// @source  CUDA driver API 13.0, cuFlushGPUDirectRDMAWrites(), CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES
  void FlushNicWrites(CUstream_st* stream, Deadline deadline) const;

  /// Runs a copy or a fill on the stream and waits for it.
  ///
  /// @param work  returns a CUresult: work(driver, stream)
  /// @errors  Error: cannot <step> <bytes> bytes of memory of this GPU
  template <class Work>
  void Run(const char* step, size_t bytes, const Work& work) const {
    if (bytes == 0) return;
    const Current current(*this);
    int result = work(driver_, stream_);
    if (result == 0) result = driver_.StreamSynchronize(stream_);
    if (result != 0) FailRun(result, step, bytes);
  }

 private:
  int Attribute(int attribute) const;
  void RecordAll(CUevent_st* event, const std::string& object) const;
  GpuAttributes ReadAttributes() const;
  [[noreturn]] void FailRun(int result, const char* step, size_t bytes) const;

  const CudaDriver& driver_;
  int ordinal_;
  int device_ = 0;
  std::string model_, pci_address_;
  GpuAttributes attributes_;
  CUctx_st* context_ = nullptr;
  CUstream_st* stream_ = nullptr;
};

}  // namespace warpverbs::inline v0_2::host
