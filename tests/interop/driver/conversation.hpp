#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "remote_party.hpp"

namespace interop {

/// Which of the two peers posts the requests.
enum class Requester { kFirst, kSecond };

/// The peers of this run, for the command line to set before any test starts.
struct Peers {
  RemoteParty* first;
  RemoteParty* second;
};
extern Peers peers;

/// How two queue pairs are set up; both sides alike but for what says otherwise.
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
  uint32_t wrong_qpn_bits = 0;  // flipped in the queue pair number that the requester sends to
};

/// Two peers with a queue pair each, and what their memory ought to hold.
///
/// A test posts operations, changes the expected memory as they should, and compares all of both peers'
/// memory at its end.
class Conversation : public testing::TestWithParam<Requester> {
 protected:
  static constexpr uint32_t kTarget = 4096;  // where requests write and read on the responder's side
  static constexpr uint32_t kReceives = kRegionBytes / 2;  // where receives begin
  static constexpr uint32_t kPatienceMs = 5000;

  RemoteParty& requester() { return GetParam() == Requester::kFirst ? *peers.first : *peers.second; }
  RemoteParty& responder() { return GetParam() == Requester::kFirst ? *peers.second : *peers.first; }

  /// Makes and connects the queue pairs; skips the test where a peer has no address of the family.
  void Start(const PairOptions& options = {});

  /// Fills in the responder's key and an address in its region.
  PostSend ToResponder(PostSend post, uint32_t remote_offset = kTarget) const;

  void Post(const PostSend& post);
  void PostReceiveOf(uint32_t bytes, uint32_t offset = kReceives, uint64_t id = 77);

  /// Takes the next completion, which must be of this entry and status.
  ibv_wc ExpectCompletion(RemoteParty& party, uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS);
  void ExpectNoCompletion(RemoteParty& party, uint32_t within_ms);

  /// Takes the receive's completion, which must tell of these bytes.
  ibv_wc ExpectReceived(ibv_wc_opcode opcode, uint32_t bytes, uint64_t id = 77);

  /// Expects the request to fail so, the requester's queue to flush what follows, and no byte to change.
  void ExpectRefused(const PostSend& post, ibv_wc_status status);

  /// Expects all of both regions to be as the test says.
  void ExpectMemory();

  /// Changes the expected memory: what a write or send does, and a read.
  void CopyToResponder(uint32_t from, uint32_t to, uint32_t bytes);
  void CopyToRequester(uint32_t from, uint32_t to, uint32_t bytes);

  std::vector<uint8_t> requester_memory_;
  std::vector<uint8_t> responder_memory_;
  Address requester_address_{};
  Address responder_address_{};

 private:
  void CompareMemory(RemoteParty& party, const std::vector<uint8_t>& expected);
};

/// Runs the suite with either peer as the requester.
std::string RequesterName(const testing::TestParamInfo<Requester>& info);
#define INTEROP_BOTH_ROLES(suite)                                                                        \
  INSTANTIATE_TEST_SUITE_P(, suite,                                                                      \
                           testing::Values(::interop::Requester::kFirst, ::interop::Requester::kSecond), \
                           ::interop::RequesterName)

}  // namespace interop
