#include "stream.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>

#include "driver.hpp"
#include "settings.hpp"

CUstream_st::CUstream_st(CUctx_st* in) : context(in) {
  if (fake_cuda::Get().delay_us != 0) thread_ = std::thread([this] { Run(); });
}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CUstream_st::Do(std::function<void()> work) {
  if (!thread_.joinable()) return work();
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void CUstream_st::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty(); });
}

void CUstream_st::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(fake_cuda::Get().delay_us));
    work_.front()();  // only this thread takes from the front
    lock.lock();
    work_.pop_front();
    changed_.notify_all();
  }
}

using namespace fake_cuda;

namespace {

// CUflushGPUDirectRDMAWritesOptions
constexpr int kFlushByHost = 1, kFlushByStream = 2;

struct MemoryOperation {  // CUstreamBatchMemOpParams
  int operation;
  unsigned flags;
  uint64_t unused[5];
};

template <class T>
int WriteValue(const char* function, CUstream_st* stream, Address at, T value, unsigned flags) {
  if (const int failure = Failure(function)) return failure;
  CheckStream(function, stream);
  if (flags != 0) Abort(function, "the word may become visible before the stream's earlier work");
  if (at % sizeof value != 0) Abort(function, "the word is not aligned");
  {
    const std::lock_guard lock(TheDriver().mutex);
    if (IsGone(at)) return kInvalidValue;
    const Range* const range = TheDriver().Find(at);
    if (range != nullptr && range->gpu != stream->context->gpu) return kInvalidValue;  // no peer access
  }
  stream->Do([=] {
    const std::lock_guard lock(TheDriver().mutex);
    auto& word = *reinterpret_cast<T*>(ReachRange(function, at, sizeof value));
    std::atomic_ref(word).store(value, std::memory_order_release);
  });
  return kSuccess;
}

/// Marks an event as reached once each stream of a set has reached this point.
void Record(const CUevent_st& event, const std::set<CUstream_st*>& streams) {
  uint64_t mark = 0;
  {
    const std::lock_guard lock(event.marks->mutex);
    mark = ++event.marks->recorded;
  }
  const auto left = std::make_shared<std::atomic<size_t>>(streams.size());
  for (CUstream_st* const stream : streams) {
    stream->Do([marks = event.marks, mark, left] {
      if (--*left != 0) return;
      const std::lock_guard lock(marks->mutex);
      marks->reached = mark;
      marks->changed.notify_all();
    });
  }
}

}  // namespace

// Streams and events. Prototypes and constants are those of the CUDA driver API 13.0.
extern "C" {

int cuStreamCreate(CUstream_st** stream, unsigned flags) {
  if (const int failure = Failure(__func__)) return failure;
  constexpr unsigned kNonBlocking = 1;
  if (flags != kNonBlocking) Abort(__func__, "the stream would wait for the legacy stream");
  *stream = new CUstream_st(Current(__func__));
  const std::lock_guard lock(TheDriver().mutex);
  (*stream)->context->handles.insert(*stream);
  (*stream)->context->streams.insert(*stream);
  ++TheDriver().streams;
  return kSuccess;
}

int cuStreamDestroy_v2(CUstream_st* stream) {
  CheckStream(__func__, stream);
  {
    const std::lock_guard lock(TheDriver().mutex);
    stream->context->handles.erase(stream);
    stream->context->streams.erase(stream);
  }
  delete stream;  // outside the lock: its last work may take it
  const std::lock_guard lock(TheDriver().mutex);
  --TheDriver().streams;
  return kSuccess;
}

int cuStreamSynchronize(CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  stream->Synchronize();
  return kSuccess;
}

int cuLaunchHostFunc(CUstream_st* stream, void (*work)(void*), void* data) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  stream->Do([=] { work(data); });
  return kSuccess;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  if (const int failure = Failure(__func__)) return failure;
  constexpr int kCurrentContext = 0, kToOwner = 100, kToAllDevices = 200;
  Current(__func__);
  if ((Get().flush & kFlushByHost) == 0) return kNotSupported;
  return target == kCurrentContext && (scope == kToOwner || scope == kToAllDevices) ? kSuccess
                                                                                    : kInvalidValue;
}

int cuStreamBatchMemOp_v2(CUstream_st* stream, unsigned count, const MemoryOperation* operations,
                          unsigned flags) {
  if (const int failure = Failure(__func__)) return failure;
  constexpr int kFlushRemoteWrites = 3;
  CheckStream(__func__, stream);
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i].operation != kFlushRemoteWrites || operations[i].flags != 0 || flags != 0)
      return kInvalidValue;
    if ((Get().flush & kFlushByStream) == 0) return kNotSupported;
    stream->Do([] { ++TheDriver().stream_flushes; });
  }
  return kSuccess;
}

int cuStreamWaitEvent(CUstream_st* stream, CUevent_st* event, unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  uint64_t target = 0;
  {
    const std::lock_guard lock(event->marks->mutex);
    target = event->marks->recorded;
  }
  stream->Do([marks = event->marks, target] {
    std::unique_lock waiting(marks->mutex);
    marks->changed.wait(waiting, [&] { return marks->reached >= target; });
  });
  return kSuccess;
}

int cuStreamWriteValue32_v2(CUstream_st* stream, Address at, uint32_t value, unsigned flags) {
  return WriteValue(__func__, stream, at, value, flags);
}

int cuStreamWriteValue64_v2(CUstream_st* stream, Address at, uint64_t value, unsigned flags) {
  return WriteValue(__func__, stream, at, value, flags);
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int current = 0;
  std::swap(current, *mode);
  return kSuccess;
}

int cuEventCreate(CUevent_st** event, unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  *event = new CUevent_st{.context = Current(__func__)};
  const std::lock_guard lock(TheDriver().mutex);
  (*event)->context->handles.insert(*event);
  ++TheDriver().events;
  return kSuccess;
}

int cuEventRecord(CUevent_st* event, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  Record(*event, {stream});
  return kSuccess;
}

int cuCtxRecordEvent(CUctx_st* context, CUevent_st* event) {
  if (const int failure = Failure(__func__)) return failure;
  if (event->context != context) Abort(__func__, "the event is of another context");
  std::set<CUstream_st*> streams;
  {
    const std::lock_guard lock(TheDriver().mutex);
    streams = context->streams;
  }
  Record(*event, streams);  // outside the lock: their work may take it
  return kSuccess;
}

int cuEventQuery(CUevent_st* event) {
  if (const int failure = Failure(__func__)) return failure;
  const std::lock_guard lock(event->marks->mutex);
  return event->marks->reached >= event->marks->recorded ? kSuccess : kNotReady;
}

int cuEventDestroy_v2(CUevent_st* event) {
  const std::lock_guard lock(TheDriver().mutex);
  event->context->handles.erase(event);
  --TheDriver().events;
  delete event;
  return kSuccess;
}

}  // extern "C"
