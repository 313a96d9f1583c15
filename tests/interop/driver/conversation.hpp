#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "remote_party.hpp"

namespace interop {

/// The peer that posts the requests.
enum class Requester { kFirst, kSecond };

/// The peers of this run; main() sets them before any test starts.
struct Peers {
  RemoteParty* first;
  RemoteParty* second;
};
extern Peers peers;

/// Options of the two queue pairs; for both sides unless named otherwise.
struct PairOptions {
  ibv_qp_type type = IBV_QPT_RC;
  Family family = Family::kIpv4;
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t requester_psn = 0x000100;
  uint32_t responder_psn = 0x800200;
  uint32_t responder_region_access = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;
  uint32_t responder_access = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retries = 7;
  uint8_t rnr_retries = 7;
  uint8_t rnr_timer = 12;  // 0.64 ms
  uint8_t traffic_class = 0;
  uint32_t wrong_qpn_bits = 0;  // flipped in the requester's destination queue pair number
};

/// Two peers with a queue pair each, and the expected contents of their memory.
///
/// A test posts operations, applies them to the expected memory, and finally compares all memory of both
/// peers.
class Conversation : public testing::TestWithParam<Requester> {
 protected:
  static constexpr uint32_t kTarget = 4096;  // offset that requests write and read at the responder
  static constexpr uint32_t kReceives = kRegionBytes / 2;  // offset of the receives
  static constexpr uint32_t kTimeoutMs = 5000;

  RemoteParty& requester() { return GetParam() == Requester::kFirst ? *peers.first : *peers.second; }
  RemoteParty& responder() { return GetParam() == Requester::kFirst ? *peers.second : *peers.first; }

  /// Creates and connects the queue pairs; skips the test if a peer has no address of the family.
  void Start(const PairOptions& options = {});

  /// Fills in the responder's key and an address in its region.
  PostSend ToResponder(PostSend post, uint32_t remote_offset = kTarget) const;

  void Post(const PostSend& post);
  void PostReceiveOf(uint32_t bytes, uint32_t offset = kReceives, uint64_t id = 77);

  /// Polls the next completion, and checks its id and status.
  ibv_wc ExpectCompletion(RemoteParty& party, uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS);
  void ExpectNoCompletion(RemoteParty& party, uint32_t within_ms);

  /// Polls a receive's completion, and checks opcode and length.
  ibv_wc ExpectReceived(ibv_wc_opcode opcode, uint32_t bytes, uint64_t id = 77);

  /// Posts a request and checks that it fails with `status`, that later requests are flushed, and that no
  /// memory changes.
  void ExpectError(const PostSend& post, ibv_wc_status status);

  /// Compares all of both regions with the expected memory.
  void ExpectMemory();

  /// Apply a write or send, and a read, to the expected memory.
  void CopyToResponder(uint32_t from, uint32_t to, uint32_t bytes);
  void CopyToRequester(uint32_t from, uint32_t to, uint32_t bytes);

  std::vector<uint8_t> requester_memory_;
  std::vector<uint8_t> responder_memory_;
  Address requester_address_{};
  Address responder_address_{};

 private:
  void CompareMemory(RemoteParty& party, const std::vector<uint8_t>& expected);
};

/// Returns the test name's suffix: "softhca1_to_rxe1".
std::string RequesterName(const testing::TestParamInfo<Requester>& info);

/// Runs the suite with either peer as the requester.
#define INTEROP_BOTH_ROLES(suite)                                                                        \
  INSTANTIATE_TEST_SUITE_P(, suite,                                                                      \
                           testing::Values(::interop::Requester::kFirst, ::interop::Requester::kSecond), \
                           ::interop::RequesterName)

}  // namespace interop
