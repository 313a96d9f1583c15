#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gpu/cuda_driver.hpp"
#include "warpverbs/host/deadline.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::host {

/// The primary context of a GPU with a stream of this library's own.
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

  /// Makes the context current for a scope, and then the caller's again.
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
  /// @param flags  of cuMemHostRegister(), beside those that this needs
  /// @errors  Error
  void Map(std::span<std::byte> memory, unsigned flags = 0) const;
  void Unmap(std::byte* memory) const;

  /// Where kernels of this GPU see memory that is mapped.
  ///
  /// @errors  Error
  CudaAddress Seen(std::byte* memory) const;

  /// Gives something back in this context; for destructors, which have nobody to tell of a failure.
  template <class GiveBack>
  void Quietly(const GiveBack& give_back) const {
    if (driver_.CtxPushCurrent(context_) != 0) return;
    give_back(driver_);
    driver_.CtxPopCurrent(nullptr);
  }

  // Copies between the processor's memory and this GPU's. Each throws Error where the driver fails.
  void CopyIn(CudaAddress to, std::span<const std::byte> from) const;
  void CopyOut(CudaAddress from, std::span<std::byte> to) const;

  /// Copies from this GPU's memory to that of the same or another.
  ///
  /// @pre  the ranges do not overlap
  /// @errors  Error: the driver fails
  void Copy(CudaAddress from, const CudaContext& to_gpu, CudaAddress to, size_t bytes) const;

  /// Waits, asleep, for what was launched until now on a stream; nullptr: on any of the context, by anyone.
  ///
  /// @errors  Error: it takes too long; a kernel has failed; the stream is none; without one, the driver has
  ///          no CUDA 12.5 (EOPNOTSUPP) or a stream is being captured
  /// @source  CUDA driver API 13.0, cuEventRecord(), cuCtxRecordEvent(), cuEventQuery()
  void Finish(CUstream_st* stream, Deadline deadline) const;

  /// Makes what NICs have written to this GPU's memory visible to its kernels; with a stream, at the latest
  /// to what is launched on that from now on.
  ///
  /// @param deadline  of the wait for a stream of this library's own, where only streams flush
  /// @errors  Error: the GPU neither keeps such writes in order nor flushes them; the driver fails
  /// @source  CUDA driver API 13.0, cuFlushGPUDirectRDMAWrites(), CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES
  void FlushNicWrites(CUstream_st* stream, Deadline deadline) const;

  /// Runs a copy or a fill on the stream and waits for it.
  ///
  /// @param work  work(driver, stream) answers a CUresult
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

}  // namespace warpverbs::host
