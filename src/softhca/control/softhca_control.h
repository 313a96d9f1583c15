#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): for C, too

/// Failures on demand, for programs that run under softhca.
///
/// The preloaded library exports these functions. A program links nothing: it finds them by name, and finds
/// none if it does not run under softhca:
///
///     auto* const hold = reinterpret_cast<decltype(&softhca_hold)>(dlsym(RTLD_DEFAULT, "softhca_hold"));
///     if (hold == nullptr) GTEST_SKIP() << "needs softhca";
///
/// Each call pauses the hardware, so it has taken effect when it returns. Any thread may call; signal
/// handlers may not.
#ifdef __cplusplus
extern "C" {
#endif

/// Makes a send WQE fail instead of being executed, as if the network had failed.
///
/// When the queue pair next reaches the WQE with this index, the WQE completes in error, the queue pair moves
/// to the error state, and all later WQEs are flushed. Nothing reaches the peer. A WQE that is waiting or
/// being retried fails, too. Several failures may be pending on a queue pair; the latest one for an index
/// counts. A reset or the end of the queue pair removes them.
///
/// @param device           name of the device, such as "mlx5_0"
/// @param wqe_index        index of the WQE's first 64 bytes, modulo 2^16: wqe_counter of its completion
/// @param syndrome         syndrome of the error CQE, such as 0x13 for remote access; not 0
/// @param vendor_syndrome  vendor syndrome of the error CQE; any value
/// @errors  ENODEV: the process has opened no device of softhca, or the device does not exist. ENOENT: the
///          queue pair does not exist. EINVAL: null device, an index beyond 16 bits, or syndrome 0
/// @return  0 or the error
int softhca_force_syndrome(const char* device, uint32_t qpn, uint32_t wqe_index, uint8_t syndrome,
                           uint8_t vendor_syndrome);

/// Pauses or resumes the send queue of a queue pair, like a peer that never responds and never exhausts the
/// retries.
///
/// While paused, no posted WQE is executed, completed or flushed, whatever the state of the queue pair.
/// Requests of the peer are served. A reset does not resume it.
///
/// @param device  name of the device, such as "mlx5_0"
/// @param hold    0 resumes, any other value pauses
/// @errors  ENODEV, ENOENT, EINVAL: as above
/// @return  0 or the error
int softhca_hold(const char* device, uint32_t qpn, int hold);

/// Makes a completion queue fail as if it were overrun: later completions are lost, and the program gets the
/// asynchronous event. A failed queue can only be destroyed.
///
/// @param device  name of the device, such as "mlx5_0"
/// @errors  ENODEV: as above. ENOENT: the completion queue does not exist. EINVAL: null device
/// @return  0 or the error
int softhca_fail_cq(const char* device, uint32_t cqn);

/// Takes the link of a port down or up. A port without link loses all packets. Every context of the device
/// gets IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE if the state changes.
///
/// @param device  name of the device, such as "mlx5_0"
/// @param port    1 is the first
/// @param up      0 takes the link down, any other value up
/// @errors  ENODEV: as above. ENOENT: the port does not exist. EINVAL: null device
/// @return  0 or the error
int softhca_set_link(const char* device, uint8_t port, int up);

/// Sends an asynchronous event to every context of the device. Nothing else changes: a device that reports a
/// fatal error keeps working.
///
/// @param device  name of the device, such as "mlx5_0"
/// @param type    an ibv_event_type of a port or of the device: IBV_EVENT_DEVICE_FATAL,
///                IBV_EVENT_LID_CHANGE
/// @param port    1 is the first; 0: an event of the device
/// @errors  ENODEV, ENOENT, EINVAL: as above
/// @return  0 or the error
int softhca_raise_event(const char* device, uint32_t type, uint8_t port);

#ifdef __cplusplus
}
#endif
