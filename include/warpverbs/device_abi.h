/// The device library: the data path as C functions, for kernels in Triton, Numba, CuPy and other languages.
///
/// Each function does what its C++ header does: device/send_queue.hpp, operations.hpp, atomics.hpp,
/// signal.hpp, receive_queue.hpp. docs/device-library.md says which file of the library to link, and shows a
/// kernel.
///
/// **Names.** A name ends with the group that calls, and where it matters with the sharing of the queue and
/// the scope: `wv_write_block_shared_system`.
///
/// | group | threads that call | operations of a call |
/// | --- | --- | --- |
/// | `thread` | any, each on its own | one of each thread |
/// | `warp` | all lanes of a warp, with equal arguments | one |
/// | `block` | all threads of a block, with equal arguments | one |
/// | `lanes` | lanes of a warp that run together | one of each lane, with one doorbell |
///
/// Lane 0 of a warp, or thread 0 of a block, executes the call, and all get its result. It sends what any of
/// the threads has written. All threads of a Triton program execute a scalar call, so such a program calls
/// `block`: a `thread` call would post once for each of them. On an exclusive queue, `lanes` are all lanes of
/// the warp.
///
/// | sharing | posters of the queue while kernels run |
/// | --- | --- |
/// | `exclusive` | one thread, warp or block, in calls that follow each other |
/// | `shared` | any |
/// | `relaxed` | any, and all of them `relaxed`: device/cooperation.hpp says what that assumes |
///
/// | scope | where the queue and its data are |
/// | --- | --- |
/// | `gpu` | in the memory of this GPU |
/// | `system` | anywhere; AMD GPUs and processors know no other, and both names do the same |
///
/// **Arguments** are integers, so that any language can pass them. An address is a `uint64_t`. Keys (`rkey`,
/// `lkey`) and immediate data (`imm`) are as they stand in memory: big-endian, as the host passes them.
///
/// * `queue`: address of a device::QueueView, `receives`: of a device::ReceiveQueueView, `peers`: of a
///   device::PeersView, in memory that the kernel can read.
/// * `poster`: address of a wv_poster, or 0.
/// * `flags`: WV_CQE_ALWAYS, for most posts. Of any `depth` consecutive slots, one must have it, and so must
///   the last one before a flush.
/// * `deadline_ns`: the time of wv_now_ns() at which a wait ends. 0: the call does not wait.
/// * `abort_word`: address of a 64-bit word that ends the wait when it is not 0; 0: none.
///
/// **Results.** Calls return a word: bits 0 to 7 are the code (WV_OK ...). After WV_ERROR, bits 8 to 15 are
/// the syndrome, 16 to 23 the vendor syndrome, and 24 to 31 the opcode of the failed WQE; after WV_INVALID,
/// bits 8 to 15 are the reason. Bits 32 to 63 are a post's ticket, or the index of the WQE that a wait found
/// failed. The functions at the end take a word apart.
///
/// **What a poster keeps.** Without a `poster`, each call starts without knowledge: it loads the end of the
/// queue, and a post also the completions, to find a free slot: four to six loads, one after the other, from
/// memory that the NIC shares. With a `poster`, a post on a queue with free slots loads nothing, as a
/// SendQueue that lives in registers: a compiler that inlines the call keeps a poster in local memory in
/// registers, too. A poster may be in any memory that its thread can write: a Triton program, which has no
/// local memory, takes one in global memory for each program.
///
/// No function needs a global variable or an initialization of the module.
#if !defined(WARPVERBS_DEVICE_ABI_H)
#define WARPVERBS_DEVICE_ABI_H

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): for C, too

#if defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
#define WARPVERBS_ABI_DEVICE __attribute__((device))
#else
#define WARPVERBS_ABI_DEVICE
#endif

/// What one poster knows of one queue between its calls. Zero it first, and after a reset of the endpoint.
///
/// It belongs to one thread, or to the warp or block whose calls it serves; each of `lanes` has its own. All
/// calls that take it have the same sharing and scope, and all lanes of a call have one or none. On an
/// exclusive queue, all posts take it as long as it is in use: it says where the queue ends.
typedef struct {
  uint64_t words[4];
} wv_poster;

/// A batch, from wv_begin to wv_submit. Needs no initial value. In a warp or block, only the thread that
/// executes the calls uses it.
typedef struct {
  uint64_t words[8];
} wv_batch;

/// A message or a write with immediate that has arrived.
typedef struct {
  uint32_t index;  ///< number of the receive that took it: counts posts from 0, modulo 2^32
  uint32_t bytes;  ///< bytes that arrived, in the receive's memory or where the write went
  uint32_t imm;    ///< immediate data, as the peer stored it; 0 without
  uint32_t flags;  ///< WV_RECEIVED_IMM, WV_RECEIVED_WRITE
} wv_received;

/// A write of a list: device::ListEntry. At a multiple of 16.
typedef struct {
  uint64_t local;   ///< address on this side
  uint64_t remote;  ///< address at the peer
  uint64_t bytes;   ///< 0: nothing is written
  uint32_t lkey, rkey;
} wv_list_entry;

/// A piece of local memory that a message gathers: device::LocalMemory.
typedef struct {
  uint64_t local;  ///< address
  uint64_t bytes;
  uint32_t lkey;
  uint32_t reserved;
} wv_memory;

#if defined(__cplusplus)
extern "C" {
#endif

/// Runs a kernel as a block of threads of the processor, so that its calls for warps and blocks work: only in
/// libwarpverbs_device_cpu. Outside, a thread is a warp and a block of its own.
///
/// @param kernel      function that each thread calls with `argument` and its number in the block
/// @param warp_lanes  1 to 64; the last warp may be shorter
/// @errors  -1: a thread could not be started, or one ended while others of its warp waited for it: their
///          calls then return WV_ABORTED
/// @return  0 when all threads have ended
int wv_run_block(void (*kernel)(void* argument, uint32_t thread), void* argument, uint32_t threads,
                 uint32_t warp_lanes);

#if defined(__cplusplus)
}
#endif

#endif  // WARPVERBS_DEVICE_ABI_H

// The list of the library. A source that defines WARPVERBS_ABI_LIST reads it again with macros of its own,
// and skips what it does not define: src/device makes the functions from it, and the table of them for
// bindings.
#if !defined(WARPVERBS_ABI_LISTED) || defined(WARPVERBS_ABI_LIST)
#define WARPVERBS_ABI_LISTED

#ifndef WARPVERBS_ABI_LIST
#define WARPVERBS_CONSTANT(name, value) enum { name = value };
#define WARPVERBS_FUNCTION(result, name, ...) WARPVERBS_ABI_DEVICE result name(__VA_ARGS__);
#endif

// Functions for each group, sharing and scope; for each group and scope; for each group.
#define WARPVERBS_EACH_QUEUE(function, ...)             \
  WARPVERBS_EACH_SHARING(function, thread, __VA_ARGS__) \
  WARPVERBS_EACH_SHARING(function, warp, __VA_ARGS__)   \
  WARPVERBS_EACH_SHARING(function, block, __VA_ARGS__)  \
  WARPVERBS_EACH_SHARING(function, lanes, __VA_ARGS__)
#define WARPVERBS_EACH_SHARING(function, group, ...)                                           \
  function(group, exclusive, gpu, __VA_ARGS__) function(group, exclusive, system, __VA_ARGS__) \
      function(group, shared, gpu, __VA_ARGS__) function(group, shared, system, __VA_ARGS__)   \
          function(group, relaxed, gpu, __VA_ARGS__) function(group, relaxed, system, __VA_ARGS__)
#define WARPVERBS_EACH_SCOPE(function, ...)                                                                 \
  function(thread, gpu, __VA_ARGS__) function(thread, system, __VA_ARGS__) function(warp, gpu, __VA_ARGS__) \
      function(warp, system, __VA_ARGS__) function(block, gpu, __VA_ARGS__)                                 \
          function(block, system, __VA_ARGS__)
#define WARPVERBS_EACH_LIST_QUEUE(function, ...)        \
  WARPVERBS_EACH_SHARING(function, thread, __VA_ARGS__) \
  WARPVERBS_EACH_SHARING(function, warp, __VA_ARGS__)   \
  WARPVERBS_EACH_SHARING(function, block, __VA_ARGS__)
#define WARPVERBS_EACH_GROUP(function, ...) \
  function(thread, __VA_ARGS__) function(warp, __VA_ARGS__) function(block, __VA_ARGS__)

#ifdef WARPVERBS_FUNCTION
#define WARPVERBS_POST(name, ...)                                          \
  WARPVERBS_EACH_QUEUE(WARPVERBS_POST_OF, name __VA_OPT__(, ) __VA_ARGS__) \
  WARPVERBS_EACH_GROUP(WARPVERBS_ADD_OF, name __VA_OPT__(, ) __VA_ARGS__)
#define WARPVERBS_POST_OF(group, sharing, scope, name, ...)                                                \
  WARPVERBS_FUNCTION(uint64_t, wv_##name##_##group##_##sharing##_##scope, uint64_t queue, uint64_t poster, \
                     __VA_ARGS__ __VA_OPT__(, ) uint32_t flags, uint64_t deadline_ns, uint64_t abort_word)
#define WARPVERBS_ADD_OF(group, name, ...)                                              \
  WARPVERBS_FUNCTION(uint64_t, wv_add_##name##_##group, uint64_t queue, uint64_t batch, \
                     __VA_ARGS__ __VA_OPT__(, ) uint32_t flags)
#define WARPVERBS_QUEUE_CALL(name, ...) WARPVERBS_EACH_QUEUE(WARPVERBS_QUEUE_CALL_OF, name, __VA_ARGS__)
#define WARPVERBS_QUEUE_CALL_OF(group, sharing, scope, name, ...) \
  WARPVERBS_FUNCTION(uint64_t, wv_##name##_##group##_##sharing##_##scope, __VA_ARGS__)
#define WARPVERBS_LIST_CALL(name, ...) WARPVERBS_EACH_LIST_QUEUE(WARPVERBS_QUEUE_CALL_OF, name, __VA_ARGS__)
#define WARPVERBS_SCOPE_CALL(name, ...) WARPVERBS_EACH_SCOPE(WARPVERBS_SCOPE_CALL_OF, name, __VA_ARGS__)
#define WARPVERBS_SCOPE_CALL_OF(group, scope, name, ...) \
  WARPVERBS_FUNCTION(uint64_t, wv_##name##_##group##_##scope, __VA_ARGS__)
#define WARPVERBS_GROUP_CALL(name, ...) WARPVERBS_EACH_GROUP(WARPVERBS_GROUP_CALL_OF, name, __VA_ARGS__)
#define WARPVERBS_GROUP_CALL_OF(group, name, ...) \
  WARPVERBS_FUNCTION(uint64_t, wv_##name##_##group, __VA_ARGS__)
#define WARPVERBS_VALUE(result, name, ...) WARPVERBS_FUNCTION(result, wv_##name, __VA_ARGS__)
#endif
#ifndef WARPVERBS_CONSTANT
#define WARPVERBS_CONSTANT(...)
#endif
#ifndef WARPVERBS_POST
#define WARPVERBS_POST(...)
#endif
#ifndef WARPVERBS_QUEUE_CALL
#define WARPVERBS_QUEUE_CALL(...)
#endif
#ifndef WARPVERBS_LIST_CALL
#define WARPVERBS_LIST_CALL(...)
#endif
#ifndef WARPVERBS_SCOPE_CALL
#define WARPVERBS_SCOPE_CALL(...)
#endif
#ifndef WARPVERBS_GROUP_CALL
#define WARPVERBS_GROUP_CALL(...)
#endif
#ifndef WARPVERBS_VALUE
#define WARPVERBS_VALUE(...)
#endif

#if defined(__cplusplus) && !defined(WARPVERBS_ABI_LIST)
extern "C" {
#endif

// Codes of results: device::Code.
WARPVERBS_CONSTANT(WV_OK, 0)
WARPVERBS_CONSTANT(WV_PENDING, 1)  ///< not complete yet
WARPVERBS_CONSTANT(WV_FULL, 2)     ///< no free slot, and a deadline of 0; nothing was posted
WARPVERBS_CONSTANT(WV_TIMEOUT, 3)  ///< the deadline passed
WARPVERBS_CONSTANT(WV_ABORTED, 4)  ///< the abort word was set
WARPVERBS_CONSTANT(WV_INVALID, 5)  ///< invalid request, see wv_request_error; nothing was posted
WARPVERBS_CONSTANT(WV_ERROR, 6)    ///< failed queue pair; lasts until the reset

// Reasons for WV_INVALID: device::RequestError.
WARPVERBS_CONSTANT(WV_TOO_MANY_SLOTS,
                   1)  ///< more slots than there are, or more entries than a message gathers
WARPVERBS_CONSTANT(WV_MESSAGE_TOO_LONG, 2)  ///< longer than the device's longest, and cannot be split
WARPVERBS_CONSTANT(WV_REFUSED_TICKET, 3)    ///< a wait for a post that was refused
WARPVERBS_CONSTANT(WV_RELEASE_SCOPE, 4)     ///< a queue in host memory, and the scope gpu
WARPVERBS_CONSTANT(WV_SHARING, 5)           ///< a queue for Contended posters (EndpointConfig::contended): C++ only

// Flags of posts: mlx5::CtrlFlags. Add them up.
WARPVERBS_CONSTANT(WV_CQE_ON_ERROR, 0)  ///< completes with the next one that has WV_CQE_ALWAYS
WARPVERBS_CONSTANT(WV_CQE_ALWAYS, 8)    ///< reports its completion
WARPVERBS_CONSTANT(WV_SOLICITED, 2)     ///< a send wakes a peer that sleeps until a completion
WARPVERBS_CONSTANT(WV_FENCE, 128)       ///< begins after the queue's earlier reads and atomics

// Comparisons that end a wait for a signal: device::Compare.
WARPVERBS_CONSTANT(WV_EQUAL, 0)
WARPVERBS_CONSTANT(WV_NOT_EQUAL, 1)
WARPVERBS_CONSTANT(WV_GREATER_OR_EQUAL, 2)  ///< unsigned

// Flags of wv_received.
WARPVERBS_CONSTANT(WV_RECEIVED_IMM, 1)    ///< it carries immediate data
WARPVERBS_CONSTANT(WV_RECEIVED_WRITE, 2)  ///< a write with immediate came: the receive's memory is untouched

// States of peers: device::PeerState.
WARPVERBS_CONSTANT(WV_PEER_DISCONNECTED, 0)
WARPVERBS_CONSTANT(WV_PEER_CONNECTED, 1)
WARPVERBS_CONSTANT(WV_PEER_FAILED, 2)

// Sizes in bytes, for languages that do not read this header.
WARPVERBS_CONSTANT(WV_POSTER_BYTES, 32)
WARPVERBS_CONSTANT(WV_BATCH_BYTES, 64)
WARPVERBS_CONSTANT(WV_RECEIVED_BYTES, 16)
WARPVERBS_CONSTANT(WV_LIST_ENTRY_BYTES, 32)
WARPVERBS_CONSTANT(WV_MEMORY_BYTES, 24)
WARPVERBS_CONSTANT(WV_QUEUE_VIEW_BYTES, 64)
WARPVERBS_CONSTANT(WV_RECEIVE_QUEUE_VIEW_BYTES, 72)
WARPVERBS_CONSTANT(WV_PEERS_VIEW_BYTES, 16)

// Posts. WARPVERBS_POST(write, arguments) declares
//
//     uint64_t wv_write_<group>_<sharing>_<scope>(uint64_t queue, uint64_t poster, arguments,
//                                                 uint32_t flags, uint64_t deadline_ns, uint64_t abort_word);
//     uint64_t wv_add_write_<group>(uint64_t queue, uint64_t batch, arguments, uint32_t flags);
//
// The first posts the operation and returns its ticket: WV_OK, WV_FULL, WV_TIMEOUT, WV_ABORTED or WV_INVALID,
// if nothing was posted, or WV_ERROR. The second adds it to a batch, which wv_submit publishes: WV_INVALID if
// nothing was added. Lanes add by the functions of `thread`.
//
// The data are visible to the caller, and stay unchanged until the ticket is done.

/// Does nothing, in order.
WARPVERBS_POST(nop)

/// Delays all later operations until the queue's earlier reads and atomics are done.
WARPVERBS_POST(fence)

/// Lets the NIC read the first byte of local memory, which flushes its earlier writes there.
WARPVERBS_POST(dump, uint64_t local, uint64_t bytes, uint32_t lkey)

/// Stops the queue until a completion queue of the device has received `count` completions since its
/// creation.
WARPVERBS_POST(wait_cq, uint32_t cqn, uint32_t count)

/// Writes local memory to the peer.
WARPVERBS_POST(write, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey)

/// Writes two pieces of local memory to the peer, one behind the other.
WARPVERBS_POST(write_two, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey,
               uint64_t local2, uint64_t bytes2, uint32_t lkey2)

/// Writes, and completes a receive of the peer, whose completion shows `imm`.
WARPVERBS_POST(write_imm, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey,
               uint32_t imm)

/// Does the same with two pieces of local memory.
WARPVERBS_POST(write_imm_two, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey,
               uint32_t imm, uint64_t local2, uint64_t bytes2, uint32_t lkey2)

/// Writes a value that the WQE contains: it need not be registered.
WARPVERBS_POST(write_u8, uint64_t remote, uint32_t rkey, uint8_t value)
WARPVERBS_POST(write_u16, uint64_t remote, uint32_t rkey, uint16_t value)
WARPVERBS_POST(write_u32, uint64_t remote, uint32_t rkey, uint32_t value)
WARPVERBS_POST(write_u64, uint64_t remote, uint32_t rkey, uint64_t value)

/// Writes 16 or 24 bytes that the WQE contains.
WARPVERBS_POST(write_u64x2, uint64_t remote, uint32_t rkey, uint64_t first, uint64_t second)
WARPVERBS_POST(write_u64x3, uint64_t remote, uint32_t rkey, uint64_t first, uint64_t second, uint64_t third)

/// Reads the peer's memory into local memory.
WARPVERBS_POST(read, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey)

/// Reads the peer's memory into two pieces of local memory.
WARPVERBS_POST(read_two, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey,
               uint64_t local2, uint64_t bytes2, uint32_t lkey2)

/// Sends a message into the peer's next receive.
WARPVERBS_POST(send, uint64_t local, uint64_t bytes, uint32_t lkey)

/// Sends two pieces of local memory as one message.
WARPVERBS_POST(send_two, uint64_t local, uint64_t bytes, uint32_t lkey, uint64_t local2, uint64_t bytes2,
               uint32_t lkey2)

/// Sends a message, whose completion at the peer shows `imm`.
WARPVERBS_POST(send_imm, uint64_t local, uint64_t bytes, uint32_t lkey, uint32_t imm)

/// Does the same with two pieces of local memory.
WARPVERBS_POST(send_imm_two, uint64_t local, uint64_t bytes, uint32_t lkey, uint32_t imm, uint64_t local2,
               uint64_t bytes2, uint32_t lkey2)

/// Writes up to 30 pieces of local memory to the peer, one behind the other, by one entry of the queue of 1
/// to 8 slots; if it takes several, a NOP follows it. `entries`: address of `count` wv_memory.
WARPVERBS_POST(write_gather, uint64_t remote, uint32_t rkey, uint64_t entries, uint32_t count)

/// Sends up to 30 pieces of local memory as one message.
WARPVERBS_POST(send_gather, uint64_t entries, uint32_t count)

// Atomics change a word of the peer, at a multiple of its size, and store the old value at `fetched`, unless
// `lkey` is 0. Take it by wv_fetched_u32 or wv_fetched_u64 once the ticket is done.

/// Adds, modulo 2^32 or 2^64.
WARPVERBS_POST(fetch_add_u32, uint64_t remote, uint32_t rkey, uint32_t addend, uint64_t fetched,
               uint32_t lkey)
WARPVERBS_POST(fetch_add_u64, uint64_t remote, uint32_t rkey, uint64_t addend, uint64_t fetched,
               uint32_t lkey)

/// Adds field by field: a set bit of `boundary` is a field's top bit, so no carry leaves the field.
WARPVERBS_POST(masked_fetch_add_u32, uint64_t remote, uint32_t rkey, uint32_t addend, uint32_t boundary,
               uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(masked_fetch_add_u64, uint64_t remote, uint32_t rkey, uint64_t addend, uint64_t boundary,
               uint64_t fetched, uint32_t lkey)

/// Replaces the word by `swap` if it equals `compare`.
WARPVERBS_POST(compare_swap_u32, uint64_t remote, uint32_t rkey, uint32_t compare, uint32_t swap,
               uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(compare_swap_u64, uint64_t remote, uint32_t rkey, uint64_t compare, uint64_t swap,
               uint64_t fetched, uint32_t lkey)

/// Compares the bits of `compare_mask`; if they match, replaces the bits of `swap_mask`.
WARPVERBS_POST(masked_compare_swap_u32, uint64_t remote, uint32_t rkey, uint32_t compare, uint32_t swap,
               uint32_t compare_mask, uint32_t swap_mask, uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(masked_compare_swap_u64, uint64_t remote, uint32_t rkey, uint64_t compare, uint64_t swap,
               uint64_t compare_mask, uint64_t swap_mask, uint64_t fetched, uint32_t lkey)

/// Replaces the word unconditionally.
WARPVERBS_POST(swap_u32, uint64_t remote, uint32_t rkey, uint32_t value, uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(swap_u64, uint64_t remote, uint32_t rkey, uint64_t value, uint64_t fetched, uint32_t lkey)

/// Clears the bits that are 0 in `bits`.
WARPVERBS_POST(fetch_and_u32, uint64_t remote, uint32_t rkey, uint32_t bits, uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(fetch_and_u64, uint64_t remote, uint32_t rkey, uint64_t bits, uint64_t fetched, uint32_t lkey)

/// Sets the bits that are 1 in `bits`.
WARPVERBS_POST(fetch_or_u32, uint64_t remote, uint32_t rkey, uint32_t bits, uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(fetch_or_u64, uint64_t remote, uint32_t rkey, uint64_t bits, uint64_t fetched, uint32_t lkey)

/// Flips the bits that are 1 in `bits`.
WARPVERBS_POST(fetch_xor_u32, uint64_t remote, uint32_t rkey, uint32_t bits, uint64_t fetched, uint32_t lkey)
WARPVERBS_POST(fetch_xor_u64, uint64_t remote, uint32_t rkey, uint64_t bits, uint64_t fetched, uint32_t lkey)

// A signal is a word of 8 bytes in the peer's memory, at a multiple of 8, that changes after the data is in
// place. The peer waits for it by wv_signal_wait.

/// Adds to a signal, which is a counter.
WARPVERBS_POST(signal_add, uint64_t signal, uint32_t rkey, uint64_t addend)

/// Replaces a signal, which is a flag.
WARPVERBS_POST(signal_set, uint64_t signal, uint32_t rkey, uint64_t value)

/// Writes data, then adds to a signal: a thread that sees the signal sees the data. Takes two slots.
WARPVERBS_POST(put_signal_add, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey,
               uint64_t signal, uint32_t signal_rkey, uint64_t addend)

/// Writes data, then replaces a signal.
WARPVERBS_POST(put_signal_set, uint64_t remote, uint32_t rkey, uint64_t local, uint64_t bytes, uint32_t lkey,
               uint64_t signal, uint32_t signal_rkey, uint64_t value)

/// Adds 1 to a word once a completion queue has received `count` completions. Takes two slots.
WARPVERBS_POST(count_completions, uint32_t cqn, uint32_t count, uint64_t signal, uint32_t rkey)

// Lists: wv_write_list_<group>_<sharing>_<scope>, for all groups but `lanes`. All lanes of a warp, or those
// of a block's first warp, write together.

/// Writes a list by one reservation and one doorbell: WV_OK, or as for a post, and nothing was posted. The
/// ticket is that of all writes. `entries`: address of `count` wv_list_entry.
///
/// Neighbours that touch on both sides, with the same keys, become one write. A list takes a slot for each
/// write that remains: WV_TOO_MANY_SLOTS if the queue has fewer.
WARPVERBS_LIST_CALL(write_list, uint64_t queue, uint64_t poster, uint64_t entries, uint32_t count,
                    uint32_t flags, uint64_t deadline_ns, uint64_t abort_word)

// Batches: wv_begin_<group>_<sharing>_<scope> reserves slots, wv_add_... writes operations, and wv_submit
// publishes all by one doorbell. In between, the poster posts nothing else to the queue and waits for
// nothing. A batch that began is always submitted. All lanes that begin together submit together; on AMD
// GPUs, those of `thread`, too.

/// Reserves slots for a batch: WV_OK, or as for a post. A batch of lanes has `slots` for each lane.
WARPVERBS_QUEUE_CALL(begin, uint64_t queue, uint64_t poster, uint64_t batch, uint32_t slots,
                     uint64_t deadline_ns, uint64_t abort_word)

/// Publishes the batch, with NOPs in its unused slots. The ticket is that of the caller's last slot.
WARPVERBS_QUEUE_CALL(submit, uint64_t queue, uint64_t poster, uint64_t batch)

// Completions: wv_wait_<group>.

/// Tests whether a post is done: WV_OK, WV_PENDING or WV_ERROR.
///
/// `posted` is the result of the post. If that is not WV_OK, the call returns it.
WARPVERBS_GROUP_CALL(test, uint64_t queue, uint64_t poster, uint64_t posted)

/// Waits until a post is done: as wv_test; or WV_TIMEOUT, WV_ABORTED: it may still complete.
WARPVERBS_GROUP_CALL(wait, uint64_t queue, uint64_t poster, uint64_t posted, uint64_t deadline_ns,
                     uint64_t abort_word)

/// Waits until everything is done that any thread posted to the queue before the call.
WARPVERBS_GROUP_CALL(flush, uint64_t queue, uint64_t poster, uint64_t deadline_ns, uint64_t abort_word)

/// Tests a word of this side that the peer changes: WV_OK or WV_PENDING. `compare`: WV_EQUAL ...
WARPVERBS_GROUP_CALL(signal_test, uint64_t signal, uint32_t compare, uint64_t value)

/// Waits until the word compares to `value`: WV_OK, WV_TIMEOUT or WV_ABORTED.
WARPVERBS_GROUP_CALL(signal_wait, uint64_t signal, uint32_t compare, uint64_t value, uint64_t deadline_ns,
                     uint64_t abort_word)

// Receives: one thread, warp or block uses a receive queue at a time.

/// Posts memory for one message, in up to two pieces: WV_OK, WV_FULL or WV_INVALID.
///
/// `submit`: 0 leaves it to a later call to hand the receive to the NIC.
WARPVERBS_SCOPE_CALL(receive_post, uint64_t receives, uint64_t local, uint64_t bytes, uint32_t lkey,
                     uint64_t local2, uint64_t bytes2, uint32_t lkey2, uint32_t submit)

/// Hands all posted receives to the NIC: WV_OK.
WARPVERBS_SCOPE_CALL(receive_submit, uint64_t receives)

/// Takes the next arrival, and waits for it until the deadline: WV_OK, WV_PENDING if the deadline is 0,
/// WV_TIMEOUT, WV_ABORTED or WV_ERROR. `received`: address of the wv_received to fill after WV_OK.
WARPVERBS_GROUP_CALL(receive_poll, uint64_t receives, uint64_t received, uint64_t deadline_ns,
                     uint64_t abort_word)

// Values.

/// Returns the time that deadlines are compared with, in nanoseconds.
WARPVERBS_VALUE(uint64_t, now_ns, void)

/// Returns the old value that an atomic of 4 or 8 bytes stored at `fetched`.
WARPVERBS_VALUE(uint32_t, fetched_u32, uint64_t fetched)
WARPVERBS_VALUE(uint64_t, fetched_u64, uint64_t fetched)

/// Returns the first error of a queue as the result of a wait, or WV_OK.
WARPVERBS_VALUE(uint64_t, queue_error, uint64_t queue)

/// Returns what the host knows of a peer: WV_PEER_CONNECTED ...
WARPVERBS_VALUE(uint32_t, peer_state, uint64_t peers, uint32_t rank)

/// Returns the code of a result: WV_OK ...
WARPVERBS_VALUE(uint32_t, code, uint64_t result)

/// Returns the ticket of a post: the index of its last slot, modulo 2^32.
WARPVERBS_VALUE(uint32_t, ticket, uint64_t posted)

/// Returns the reason for WV_INVALID; 0 without.
WARPVERBS_VALUE(uint32_t, request_error, uint64_t result)

/// Returns the syndrome of WV_ERROR (mlx5/syndrome.hpp); 0 without, or if a poster gave up.
WARPVERBS_VALUE(uint32_t, syndrome, uint64_t result)

/// Returns the vendor's syndrome of WV_ERROR; 0 without.
WARPVERBS_VALUE(uint32_t, vendor_syndrome, uint64_t result)

/// Returns the opcode of the failed WQE; 0 without WV_ERROR.
WARPVERBS_VALUE(uint32_t, opcode, uint64_t result)

/// Returns the index of the failed WQE modulo 2^16, from the WV_ERROR of a wait or of wv_queue_error.
WARPVERBS_VALUE(uint32_t, wqe_index, uint64_t result)

#if defined(__cplusplus) && !defined(WARPVERBS_ABI_LIST)
}
#endif

#undef WARPVERBS_CONSTANT
#undef WARPVERBS_FUNCTION
#undef WARPVERBS_POST
#undef WARPVERBS_QUEUE_CALL
#undef WARPVERBS_LIST_CALL
#undef WARPVERBS_SCOPE_CALL
#undef WARPVERBS_GROUP_CALL
#undef WARPVERBS_VALUE
#undef WARPVERBS_EACH_QUEUE
#undef WARPVERBS_EACH_LIST_QUEUE
#undef WARPVERBS_EACH_SHARING
#undef WARPVERBS_EACH_SCOPE
#undef WARPVERBS_EACH_GROUP
#undef WARPVERBS_POST_OF
#undef WARPVERBS_ADD_OF
#undef WARPVERBS_QUEUE_CALL_OF
#undef WARPVERBS_SCOPE_CALL_OF
#undef WARPVERBS_GROUP_CALL_OF
#undef WARPVERBS_ABI_LIST
#endif  // WARPVERBS_ABI_LIST
