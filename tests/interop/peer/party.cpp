#include "party.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace interop {
namespace {

constexpr uint8_t kPort = 1;
constexpr uint8_t kReads = 4;  // reads and atomics in flight

Answer Failed(int error) { return {.error = error}; }
Answer Value(uint64_t value) { return {.value = value}; }

Family FamilyOf(const ibv_gid& gid) {
  constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), gid.raw)) return Family::kIpv4;
  return gid.raw[0] == 0xfe ? Family::kLinkLocal : Family::kIpv6;
}

ibv_ah_attr Route(const Connect& connect, uint8_t gid_index) {
  ibv_ah_attr route{};
  route.is_global = 1;
  route.port_num = kPort;
  route.grh.dgid = connect.peer.gid;
  route.grh.sgid_index = gid_index;
  route.grh.hop_limit = 64;
  route.grh.traffic_class = connect.traffic_class;
  return route;
}

bool IsAtomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

}  // namespace

Party::Party() : region_(kRegionBytes) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices && count > 0) context_.reset(ibv_open_device(devices[0]));
  ibv_free_device_list(devices);
  if (!count)
    throw std::runtime_error("Cannot find an RDMA device. Run this under softhca, or load a driver.");
  if (context_) domain_.reset(ibv_alloc_pd(context_.get()));
  if (context_) channel_.reset(ibv_create_comp_channel(context_.get()));
  if (!domain_ || !channel_) throw std::runtime_error("Cannot open the first RDMA device.");
}

Party::~Party() { Close(); }

void Party::Close() {
  datagram_route_.reset();
  window_.reset();  // before the region: rdma_rxe keeps a region with windows
  pair_.reset();
  completions_.reset();
  registration_.reset();
}

Answer Party::Execute(const Command& command) {
  const bool first = std::holds_alternative<Open>(command) || std::holds_alternative<RunProgram>(command);
  if (!pair_ && !first) return Failed(ENOTCONN);
  Answer answer = std::visit([this](const auto& each) { return Do(each); }, command);
  std::snprintf(answer.device.data(), answer.device.size(), "%s", ibv_get_device_name(context_->device));
  return answer;
}

bool Party::FindAddress(Family family) {
  std::array<ibv_gid_entry, 64> entries;
  const ssize_t count = ibv_query_gid_table(context_.get(), entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || FamilyOf(entry.gid) != family) continue;
    own_.gid = entry.gid;
    gid_index_ = static_cast<uint8_t>(entry.gid_index);
    return true;
  }
  return false;
}

Answer Party::Do(const Open& open) {
  Close();
  if (!FindAddress(open.family)) return Failed(ENOENT);
  for (uint32_t i = 0; i < kRegionBytes; ++i) region_[i] = PatternByte(open.seed, i);
  registration_.reset(
      ibv_reg_mr(domain_.get(), region_.data(), kRegionBytes, static_cast<int>(open.region_access)));
  completions_.reset(ibv_create_cq(context_.get(), 256, nullptr, channel_.get(), 0));
  if (!registration_ || !completions_) return Failed(errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = completions_.get();
  attributes.cap = {
      .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64};
  attributes.qp_type = open.type;
  pair_.reset(ibv_create_qp(domain_.get(), &attributes));
  if (!pair_) return Failed(errno);
  own_.qpn = pair_->qp_num;
  own_.psn = open.psn;
  own_.rkey = registration_->rkey;
  own_.region = reinterpret_cast<uintptr_t>(region_.data());
  return {.address = own_};
}

Answer Party::Do(const Connect& connect) {
  peer_ = connect.peer;
  if (const int error = Initialise(connect)) return Failed(error);
  if (const int error = MakeReady(connect)) return Failed(error);
  if (const int error = Start(connect)) return Failed(error);
  if (pair_->qp_type != IBV_QPT_UD) return {};
  ibv_ah_attr route = Route(connect, gid_index_);
  datagram_route_.reset(ibv_create_ah(domain_.get(), &route));
  return Failed(datagram_route_ ? 0 : errno);
}

int Party::Initialise(const Connect& connect) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qkey = kQKey;
  attributes.qp_access_flags = connect.access;
  const int own = pair_->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

int Party::MakeReady(const Connect& connect) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = connect.mtu;
  attributes.dest_qp_num = connect.peer.qpn;
  attributes.rq_psn = connect.peer.psn;
  attributes.max_dest_rd_atomic = kReads;
  attributes.min_rnr_timer = connect.rnr_timer;
  attributes.ah_attr = Route(connect, gid_index_);
  int mask = IBV_QP_STATE;
  if (pair_->qp_type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (pair_->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(pair_.get(), &attributes, mask);
}

int Party::Start(const Connect& connect) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = own_.psn;
  attributes.timeout = connect.timeout;
  attributes.retry_cnt = connect.retries;
  attributes.rnr_retry = connect.rnr_retries;
  attributes.max_rd_atomic = kReads;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (pair_->qp_type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(pair_.get(), &attributes, mask);
}

Answer Party::Do(const PostSend& post) {
  ibv_sge bytes{.addr = own_.region + post.offset, .length = post.bytes, .lkey = registration_->lkey};
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = post.id;
  request.sg_list = &bytes;
  request.num_sge = post.bytes ? 1 : 0;
  request.opcode = post.opcode;
  request.send_flags = post.flags;
  const bool invalidates = post.opcode == IBV_WR_LOCAL_INV || post.opcode == IBV_WR_SEND_WITH_INV;
  invalidates ? request.invalidate_rkey = post.rkey : request.imm_data = htonl(post.immediate);
  if (pair_->qp_type == IBV_QPT_UD) {
    request.wr.ud = {.ah = datagram_route_.get(), .remote_qpn = peer_.qpn, .remote_qkey = post.q_key};
  } else if (IsAtomic(post.opcode)) {
    request.wr.atomic = {
        .remote_addr = post.remote, .compare_add = post.compare_add, .swap = post.swap, .rkey = post.rkey};
  } else {
    request.wr.rdma = {.remote_addr = post.remote, .rkey = post.rkey};
  }
  return Failed(ibv_post_send(pair_.get(), &request, &refused));
}

Answer Party::Do(const Bind& bind) {
  if (window_ && window_->type != bind.type) return Failed(EINVAL);
  if (!window_) window_.reset(ibv_alloc_mw(domain_.get(), bind.type));
  if (!window_) return Failed(errno);
  const ibv_mw_bind_info part{.mr = registration_.get(),
                              .addr = own_.region + bind.offset,
                              .length = bind.bytes,
                              .mw_access_flags = bind.access};
  if (bind.type == IBV_MW_TYPE_1) {
    ibv_mw_bind request{.wr_id = bind.id, .send_flags = IBV_SEND_SIGNALED, .bind_info = part};
    const int error = ibv_bind_mw(pair_.get(), window_.get(), &request);
    return {.error = error, .value = window_->rkey};
  }
  const uint32_t key = ibv_inc_rkey(window_->rkey);
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = bind.id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw = {.mw = window_.get(), .rkey = key, .bind_info = part};
  const int error = ibv_post_send(pair_.get(), &request, &refused);
  if (!error) window_->rkey = key;
  return {.error = error, .value = key};
}

Answer Party::Do(const PostReceive& post) {
  ibv_sge bytes{.addr = own_.region + post.offset, .length = post.bytes, .lkey = registration_->lkey};
  ibv_recv_wr request{}, *refused = nullptr;
  request.wr_id = post.id;
  request.sg_list = &bytes;
  request.num_sge = post.bytes ? 1 : 0;
  return Failed(ibv_post_recv(pair_.get(), &request, &refused));
}

Answer Party::Do(const Poll& poll) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(poll.timeout_ms);
  while (true) {
    Answer answer;
    const bool late = std::chrono::steady_clock::now() >= deadline;
    const int count = ibv_poll_cq(completions_.get(), 1, &answer.completion);
    if (count < 0) return Failed(EIO);
    answer.completed = count == 1;
    if (answer.completed || late) return answer;
    usleep(100);  // spinning would slow an emulated processor down
  }
}

Answer Party::Do(const Arm& arm) { return Failed(ibv_req_notify_cq(completions_.get(), arm.solicited_only)); }

Answer Party::Do(const AwaitEvent& await) {
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, static_cast<int>(await.timeout_ms)) != 1) return Value(0);
  ibv_cq* queue = nullptr;
  void* own = nullptr;
  if (ibv_get_cq_event(channel_.get(), &queue, &own)) return Failed(errno);
  ibv_ack_cq_events(queue, 1);
  return Value(1);
}

Answer Party::Do(const Sum& sum) {
  if (sum.offset > kRegionBytes || sum.bytes > kRegionBytes - sum.offset) return Failed(EINVAL);
  return Value(Checksum(region_.data() + sum.offset, sum.bytes));
}

Answer Party::Do(const Store& store) {
  if (store.offset > kRegionBytes - sizeof(store.value)) return Failed(EINVAL);
  std::memcpy(region_.data() + store.offset, &store.value, sizeof(store.value));
  return {};
}

Answer Party::Do(const Load& load) {
  uint64_t value = 0;
  if (load.offset > kRegionBytes - sizeof(value)) return Failed(EINVAL);
  std::memcpy(&value, region_.data() + load.offset, sizeof(value));
  return Value(value);
}

Answer Party::Do(const QueryState&) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  const int error = ibv_query_qp(pair_.get(), &attributes, IBV_QP_STATE, &made);
  return {.error = error, .value = static_cast<uint64_t>(attributes.qp_state)};
}

Answer Party::Do(const RunProgram& program) {
  FILE* const output = popen(program.line.data(), "r");
  if (!output) return Failed(errno);
  std::string text;
  std::array<char, 512> piece;
  while (std::fgets(piece.data(), piece.size(), output)) text += piece.data();
  const int status = pclose(output);
  Answer answer = Value(WIFEXITED(status) ? static_cast<uint64_t>(WEXITSTATUS(status)) : 255);
  const size_t kept = std::min(text.size(), answer.text.size() - 1);
  std::copy(text.end() - static_cast<ptrdiff_t>(kept), text.end(), answer.text.begin());
  return answer;
}

}  // namespace interop
