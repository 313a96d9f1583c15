#pragma once

#include <cstddef>
#include <cstdint>

/// The part of the CUDA driver API that softhca uses.
namespace softhca::cuda {

using Result = int;  ///< 0: success
using Device = int;
using Address = uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;

inline constexpr Result kSuccess = 0;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventWithoutTiming = 2;
inline constexpr unsigned kHostMemoryPortable = 1;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr int kCaptureRelaxed = 2;

enum PointerAttribute : int { kMemoryType = 2, kDeviceOrdinal = 9, kRangeStart = 11, kRangeSize = 12 };

/// The driver's functions, once the program has loaded it.
///
/// @source  cuda.h of CUDA 13.0
struct Driver {
  Result (*pointer_get_attribute)(void* value, PointerAttribute attribute, Address address);
  Result (*device_get)(Device* device, int ordinal);
  Result (*context_retain)(Context* context, Device device);
  Result (*context_release)(Device device);
  Result (*context_push)(Context context);
  Result (*context_pop)(Context* context);
  Result (*exchange_capture_mode)(int* mode);
  Result (*host_alloc)(void** memory, size_t bytes, unsigned flags);
  Result (*host_free)(void* memory);
  Result (*stream_create)(Stream* stream, unsigned flags);
  Result (*stream_destroy)(Stream stream);
  Result (*stream_synchronize)(Stream stream);
  Result (*stream_wait_event)(Stream stream, Event event, unsigned flags);
  Result (*event_create)(Event* event, unsigned flags);
  Result (*event_record)(Event event, Stream stream);
  Result (*event_destroy)(Event event);
  Result (*copy_to_device)(Address to, const void* from, size_t bytes, Stream stream);
  Result (*copy_to_host)(void* to, Address from, size_t bytes, Stream stream);
  Result (*write_word_32)(Stream stream, Address to, uint32_t value, unsigned flags);
  Result (*write_word_64)(Stream stream, Address to, uint64_t value, unsigned flags);

  /// @return  null if the program does not use CUDA, or uses a version before 12
  static const Driver* Loaded();
};

}  // namespace softhca::cuda
