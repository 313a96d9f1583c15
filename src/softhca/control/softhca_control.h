#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): C reads this too

/// What a program under softhca may ask of the hardware beyond what a card does: failures on demand.
///
/// The preloaded library exports these functions; a program links nothing. It finds them by name, which also
/// tells it whether softhca is there at all:
///
///     auto* const hold = reinterpret_cast<decltype(&softhca_hold)>(dlsym(RTLD_DEFAULT, "softhca_hold"));
///     if (hold == nullptr) GTEST_SKIP() << "needs softhca";
///
/// The hardware stands still while a call changes it, so a call that has returned is in force. Any thread may
/// call, but not from a signal handler.
#ifdef __cplusplus
extern "C" {
#endif

/// Lets a send WQE fail in place of being executed, as if the network had caused it.
///
/// When the queue pair next reaches the WQE with this index, that WQE completes in error, the queue pair goes
/// to the error state, and what is posted behind it is flushed. Nothing reaches the peer. A WQE that still
/// waits, or is tried again, has not been passed and fails too. Several may be pending on a queue pair; for
/// one index the latest counts. They go away when the queue pair is reset or destroyed.
///
/// @param device           name of the device, such as "mlx5_0"
/// @param wqe_index        of the WQE's first 64 bytes, modulo 2^16: the wqe_counter of its completion
/// @param syndrome         of the error CQE, as the card encodes it: 0x13 for remote access; not 0
/// @param vendor_syndrome  of the error CQE; any value
/// @errors  ENODEV: this process has opened no device of softhca, or there is none of that name. ENOENT: the
///          device has no such queue pair. EINVAL: no device named, an index beyond 16 bits, or syndrome 0
/// @return  0 or the error
int softhca_force_syndrome(const char* device, uint32_t qpn, uint32_t wqe_index, uint8_t syndrome,
                           uint8_t vendor_syndrome);

/// Lets a queue pair's send queue stand still: a peer that neither answers nor lets the retries run out.
///
/// While held, nothing posted to it is executed, completed or flushed, whatever the state of the queue pair.
/// What its peer sends to it is served. It stays held over a reset, until it is let go or destroyed.
///
/// @param device  name of the device, such as "mlx5_0"
/// @param hold    0 lets it go on, anything else holds it
/// @errors  ENODEV, ENOENT, EINVAL: as above
/// @return  0 or the error
int softhca_hold(const char* device, uint32_t qpn, int hold);

/// Lets a completion queue fail, as one does that is overrun: what completes from now on is lost, and the
/// program gets the event of that. It stays so until it is destroyed.
///
/// @param device  name of the device, such as "mlx5_0"
/// @errors  ENODEV: as above. ENOENT: the device has no such completion queue. EINVAL: no device named
/// @return  0 or the error
int softhca_fail_cq(const char* device, uint32_t cqn);

/// Takes the link of a port down or up. What is sent over a port without link is lost; whoever has the device
/// open gets IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE, unless nothing changes.
///
/// @param device  name of the device, such as "mlx5_0"
/// @param port    1 is the first
/// @param up      0 takes it down, anything else up
/// @errors  ENODEV: as above. ENOENT: the device has no such port. EINVAL: no device named
/// @return  0 or the error
int softhca_set_link(const char* device, uint8_t port, int up);

/// Announces an event to whoever has the device open. Nothing else changes: a device that is said to have
/// failed goes on.
///
/// @param device  name of the device, such as "mlx5_0"
/// @param type    an ibv_event_type that is a port's or the device's: IBV_EVENT_DEVICE_FATAL,
///                IBV_EVENT_LID_CHANGE
/// @param port    1 is the first; 0 for an event of the device
/// @errors  ENODEV, ENOENT, EINVAL: as above
/// @return  0 or the error
int softhca_raise_event(const char* device, uint32_t type, uint8_t port);

#ifdef __cplusplus
}
#endif
