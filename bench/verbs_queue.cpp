#include "verbs_queue.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::bench {
namespace {

constexpr size_t kBytes = 4096;
constexpr uint64_t kTarget = 64;  // offset in the memory that the writes go to

void Check(int error, const char* step) {
  if (error != 0)
    throw host::Error::FromErrno(step, "the benchmark's queue", error, "Run the benchmark under softhca");
}

host::Handle<ibv_cq, ibv_destroy_cq> CreateCq(const host::Device& device) {
  host::Handle<ibv_cq, ibv_destroy_cq> cq(
      ibv_create_cq(device.context(), VerbsQueue::kDepth, nullptr, nullptr, 0));
  if (cq == nullptr) Check(errno, "create the completions of");
  return cq;
}

host::Handle<ibv_qp, ibv_destroy_qp> CreateQp(const host::Device& device, ibv_cq* cq) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = VerbsQueue::kDepth,
              .max_recv_wr = 0,
              .max_send_sge = 1,
              .max_recv_sge = 0,
              .max_inline_data = device::kMaxInlineWriteBytes};
  init.pd = device.pd();
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  host::Handle<ibv_qp, ibv_destroy_qp> qp(ibv_create_qp_ex(device.context(), &init));
  if (qp == nullptr) Check(errno, "create");
  return qp;
}

}  // namespace

VerbsQueue::VerbsQueue(const host::Device& device)
    : memory_(kBytes),
      region_(device, memory_.data(), kBytes, {.remote_write = true}),
      cq_(CreateCq(device)),
      qp_(CreateQp(device, cq_.get())) {
  mlx5dv_obj object{};
  object.qp = {qp_.get(), &queue_};
  object.cq = {cq_.get(), &completions_};
  Check(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), "look into");
  // Initialises the CQE before the first as this library's host side does. To libmlx5 it stays invalid.
  std::memset(static_cast<uint8_t*>(completions_.buf) + (completions_.cqe_cnt - 1) * sizeof(mlx5::Cqe64),
              0xff, sizeof(mlx5::Cqe64));
  Connect(device);
  HoldDoorbellsBack();
}

VerbsQueue::~VerbsQueue() {
  // Moves the NIC's registers back: libmlx5 unmaps them there, and the device's next queue rings there.
  mremap(nic_, mlx5::kUarPageBytes, mlx5::kUarPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, page_);
}

void VerbsQueue::Connect(const host::Device& device) {
  const host::LocalAddress local = device.ChooseAddress();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = local.port.number;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  Check(ibv_modify_qp(qp(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "initialise");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp()->qp_num;
  attr.ah_attr.port_num = local.port.number;
  attr.ah_attr.dlid = local.port.lid;
  attr.ah_attr.is_global = local.port.link_layer == host::LinkLayer::kEthernet;
  std::copy_n(local.gid.gid.raw.begin(), sizeof attr.ah_attr.grh.dgid, attr.ah_attr.grh.dgid.raw);
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(local.gid.index);
  attr.ah_attr.grh.hop_limit = 1;
  Check(ibv_modify_qp(qp(), &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        "connect");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  Check(ibv_modify_qp(qp(), &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC),
        "connect");
}

void VerbsQueue::HoldDoorbellsBack() {
  page_ = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(queue_.bf.reg) & ~uintptr_t{4095});
  void* const elsewhere = mmap(nullptr, mlx5::kUarPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const nic =
      mremap(page_, mlx5::kUarPageBytes, mlx5::kUarPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
  if (nic == MAP_FAILED) Check(errno, "move the doorbell of");
  nic_ = static_cast<uint8_t*>(nic);
  if (mmap(page_, mlx5::kUarPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    Check(errno, "hold back the doorbell of");
  }
}

volatile uint64_t* VerbsQueue::Doorbell(uint8_t* page) const {
  return reinterpret_cast<volatile uint64_t*>(page + (static_cast<uint8_t*>(queue_.bf.reg) - page_));
}

void VerbsQueue::RingNic() {
  // libmlx5 alternates between two registers. The first always holds a doorbell of this batch, and the NIC
  // reads the end from the record.
  __atomic_store_n(const_cast<uint64_t*>(Doorbell(nic_)), *Doorbell(page_), __ATOMIC_RELEASE);
}

device::QueueView VerbsQueue::View(uint32_t posted) {
  control_ = {};
  control_.tail = uint64_t{posted} << 32 | posted;
  const uint32_t newest = (posted - 1) & (completions_.cqe_cnt - 1);
  return {.sq = static_cast<uint8_t*>(queue_.sq.buf),
          .doorbell = static_cast<uint64_t*>(queue_.bf.reg),
          .dbrec = reinterpret_cast<uint32_t*>(&queue_.dbrec[MLX5_SND_DBR]),
          .cqe = static_cast<uint8_t*>(completions_.buf) + newest * sizeof(mlx5::Cqe64),
          .control = &control_,
          .qpn_be = mlx5::ToBe32(qp()->qp_num << 8).raw,
          .depth = queue_.sq.wqe_cnt,
          .max_message = 1 << 30,
          .sink_lkey_be = 0,
          .flags = device::kWriteCombining};
}

device::CqView VerbsQueue::CompletionView() const {
  return {.cqe = static_cast<const uint8_t*>(completions_.buf),
          .dbrec = reinterpret_cast<uint32_t*>(completions_.dbrec),
          .depth = completions_.cqe_cnt};
}

uint64_t VerbsQueue::remote_address() const { return region_.View().addr + kTarget; }
uint32_t VerbsQueue::rkey() const { return region_.View().rkey; }
ibv_sge VerbsQueue::sge() const { return {region_.View().addr, 8, region_.View().lkey}; }
device::LocalMemory VerbsQueue::Local() const { return {sge().addr, sge().length, mlx5::ToBe32(sge().lkey)}; }
device::RemoteMemory VerbsQueue::Remote() const { return {remote_address(), mlx5::ToBe32(rkey())}; }

}  // namespace warpverbs::bench
