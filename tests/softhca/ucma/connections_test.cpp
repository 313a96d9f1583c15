#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "readable.hpp"
#include "softhca_control.h"

// librdmacm on softhca, both ends in one process.

namespace ucma {
namespace {

constexpr int kDeadlineMs = 20'000;

/// An acknowledged event, with a copy of its private data.
struct Event {
  rdma_cm_event_type kind{};
  int status = 0;
  rdma_cm_id *id = nullptr, *listener = nullptr;
  rdma_conn_param connection{};
  rdma_ud_param datagram{};
  std::string private_data;
};

/// An event channel and all ids created or received on it.
class Channel {
 public:
  Channel() : channel_(rdma_create_event_channel()) { EXPECT_NE(channel_, nullptr) << strerror(errno); }
  ~Channel() {
    for (rdma_cm_id* const id : ids_) {
      if (id->qp != nullptr) rdma_destroy_qp(id);
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    rdma_destroy_event_channel(channel_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  rdma_cm_id* MakeId(rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, space), 0) << strerror(errno);
    ids_.push_back(id);
    return id;
  }
  Event Next() {
    Event event;
    rdma_cm_event* raw = nullptr;
    if (!Readable(channel_->fd, kDeadlineMs) || rdma_get_cm_event(channel_, &raw) != 0) {
      ADD_FAILURE() << "no event";
      return event;
    }
    event.kind = raw->event;
    event.status = raw->status;
    event.id = raw->id;
    event.listener = raw->listen_id;
    const bool datagram = raw->id->qp_type == IBV_QPT_UD;
    if (datagram) {
      event.datagram = raw->param.ud;
    } else {
      event.connection = raw->param.conn;
    }
    const void* const data = datagram ? raw->param.ud.private_data : raw->param.conn.private_data;
    const size_t bytes = datagram ? raw->param.ud.private_data_len : raw->param.conn.private_data_len;
    if (data != nullptr) event.private_data.assign(static_cast<const char*>(data), bytes);
    if (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST) ids_.push_back(raw->id);
    EXPECT_EQ(rdma_ack_cm_event(raw), 0);
    return event;
  }
  /// Moves an id to another channel.
  int Migrate(rdma_cm_id* id, Channel& to) {
    std::erase(ids_, id);
    to.ids_.push_back(id);
    return rdma_migrate_id(id, to.channel_);
  }
  rdma_event_channel* get() const { return channel_; }

 private:
  rdma_event_channel* channel_;
  std::vector<rdma_cm_id*> ids_;
};

/// @param ip  IPv4 address in host order
sockaddr_in Address(uint16_t port, uint32_t ip) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(ip);
  return address;
}

sockaddr_in Loopback(uint16_t port) { return Address(port, INADDR_LOOPBACK); }

void MakeQueuePair(rdma_cm_id* id) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {
      .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attributes.qp_type = id->qp_type;
  attributes.sq_sig_all = 1;
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0) << strerror(errno);
}

class RdmaCm : public testing::Test {
 protected:
  rdma_cm_id* Listen(rdma_port_space space = RDMA_PS_TCP, int backlog = 8, uint32_t ip = INADDR_ANY) {
    rdma_cm_id* const id = passive.MakeId(space);
    sockaddr_in address = Address(0, ip);
    EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0) << strerror(errno);
    EXPECT_EQ(rdma_listen(id, backlog), 0) << strerror(errno);
    port = ntohs(rdma_get_src_port(id));
    EXPECT_NE(port, 0);
    return id;
  }
  rdma_cm_id* Resolve(rdma_port_space space = RDMA_PS_TCP) { return Resolve(space, active); }
  /// Creates an id and resolves address and route, up to rdma_connect().
  rdma_cm_id* Resolve(rdma_port_space space, Channel& channel, uint32_t ip = INADDR_LOOPBACK) {
    rdma_cm_id* const id = channel.MakeId(space);
    sockaddr_in to = Address(port, ip);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000), 0) << strerror(errno);
    EXPECT_EQ(channel.Next().kind, RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id, 2000), 0) << strerror(errno);
    EXPECT_EQ(channel.Next().kind, RDMA_CM_EVENT_ROUTE_RESOLVED);
    MakeQueuePair(id);
    return id;
  }
  int Connect(rdma_cm_id* id, const std::string& private_data = {}) {
    rdma_conn_param parameters{};
    parameters.private_data = private_data.data();
    parameters.private_data_len = static_cast<uint8_t>(private_data.size());
    parameters.initiator_depth = parameters.responder_resources = 1;
    parameters.retry_count = parameters.rnr_retry_count = 7;
    return rdma_connect(id, &parameters);
  }
  /// Both ends of an established connection.
  struct Pair {
    rdma_cm_id *active, *passive;
  };
  Pair Establish(uint32_t ip = INADDR_LOOPBACK) {
    Listen();
    return Accept(Resolve(RDMA_PS_TCP, active, ip));
  }
  /// Connects a resolved id to the listener.
  Pair Accept(rdma_cm_id* id) {
    Pair pair{id, nullptr};
    EXPECT_EQ(Connect(pair.active), 0) << strerror(errno);
    const Event request = passive.Next();
    EXPECT_EQ(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
    pair.passive = request.id;
    MakeQueuePair(pair.passive);
    EXPECT_EQ(rdma_accept(pair.passive, nullptr), 0) << strerror(errno);
    EXPECT_EQ(active.Next().kind, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(passive.Next().kind, RDMA_CM_EVENT_ESTABLISHED);
    return pair;
  }

  Channel active, passive;
  uint16_t port = 0;
};

TEST_F(RdmaCm, CarriesData) {
  const Pair pair = Establish();
  std::array<uint8_t, 64> from{1, 2, 3}, to{};
  ibv_mr* const source = rdma_reg_msgs(pair.active, from.data(), from.size());
  ibv_mr* const target = rdma_reg_msgs(pair.passive, to.data(), to.size());
  ASSERT_EQ(rdma_post_recv(pair.passive, nullptr, to.data(), to.size(), target), 0);
  ASSERT_EQ(rdma_post_send(pair.active, nullptr, from.data(), from.size(), source, 0), 0);
  ibv_wc completion{};
  ASSERT_EQ(rdma_get_recv_comp(pair.passive, &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(to, from);
  ASSERT_EQ(rdma_get_send_comp(pair.active, &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  rdma_dereg_mr(source);
  rdma_dereg_mr(target);
}

/// Expects that both ends know each other by the same addresses and ports.
void ExpectSameAddresses(rdma_cm_id* active, rdma_cm_id* passive, uint32_t source, uint32_t destination) {
  const auto ip = [](const sockaddr* address) {
    EXPECT_EQ(address->sa_family, AF_INET);
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
  };
  EXPECT_EQ(ip(rdma_get_local_addr(active)), source);
  EXPECT_EQ(ip(rdma_get_peer_addr(passive)), source);
  EXPECT_EQ(ip(rdma_get_peer_addr(active)), destination);
  EXPECT_EQ(ip(rdma_get_local_addr(passive)), destination);
  EXPECT_EQ(rdma_get_src_port(active), rdma_get_dst_port(passive));
  EXPECT_EQ(rdma_get_dst_port(active), rdma_get_src_port(passive));
}

TEST_F(RdmaCm, BothSidesAreTheLoopbackAddress) {
  const Pair pair = Establish();
  ExpectSameAddresses(pair.active, pair.passive, INADDR_LOOPBACK, INADDR_LOOPBACK);
}

TEST_F(RdmaCm, EveryClientHasAPortOfItsOwn) {
  constexpr int kClients = 400;  // of ports drawn at random, two would almost surely be the same
  port = 7;
  std::set<uint16_t> ports;
  for (int i = 0; i < kClients; ++i) {
    rdma_cm_id* const id = active.MakeId();
    sockaddr_in to = Loopback(port);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000), 0) << strerror(errno);
    ASSERT_EQ(active.Next().kind, RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_TRUE(ports.insert(rdma_get_src_port(id)).second) << "client " << i;
  }
}

TEST_F(RdmaCm, AnyAddressAsDestinationIsTheLoopbackAddress) {
  const Pair pair = Establish(INADDR_ANY);
  ExpectSameAddresses(pair.active, pair.passive, INADDR_LOOPBACK, INADDR_LOOPBACK);
}

TEST_F(RdmaCm, UsesAnAddressThatAnotherProcessGot) {
  constexpr uint32_t kForeign = 0x7f53ffe1;  // of a block that no process reserves first
  Listen(RDMA_PS_TCP, 8, kForeign);
  const Pair pair = Accept(Resolve(RDMA_PS_TCP, active, kForeign));
  EXPECT_EQ(reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(pair.passive))->sin_addr.s_addr,
            htonl(kForeign));
}

TEST_F(RdmaCm, ConnectsToAnyAddressOfAListenerOnAll) {
  Listen();
  Accept(Resolve(RDMA_PS_TCP, active, 0x7f53ffe1));
}

TEST_F(RdmaCm, AnAddressOfAnotherUserLeadsToItsProgram) {
  constexpr char kClaim[] = "softhca/4294967294/block/2046";  // names are not protected: as that user would
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(name.sun_path + 1, kClaim, sizeof kClaim - 1);
  const int claim = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(claim, reinterpret_cast<sockaddr*>(&name), offsetof(sockaddr_un, sun_path) + sizeof kClaim),
            0);
  Listen();
  const std::array<uint8_t, 4> address{127, 83, 0xff, 0xc1};
  const rdma_cm_id* const id = Resolve(RDMA_PS_TCP, active, 0x7f53ffc1);
  EXPECT_EQ(memcmp(id->route.addr.addr.ibaddr.dgid.raw + 12, address.data(), address.size()), 0);
  close(claim);
}

TEST_F(RdmaCm, AListenerOnAllAddressesExcludesOneAddress) {
  Listen();
  rdma_cm_id* const second = passive.MakeId();
  sockaddr_in address = Loopback(port);
  EXPECT_EQ(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL) << "as on Linux";
}

TEST_F(RdmaCm, RefusesASecondListenerOnAnAddress) {
  Listen(RDMA_PS_TCP, 8, INADDR_LOOPBACK);
  sockaddr_in address = Loopback(port);
  EXPECT_EQ(rdma_bind_addr(passive.MakeId(), reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  address.sin_addr.s_addr = INADDR_ANY;
  EXPECT_EQ(rdma_bind_addr(passive.MakeId(), reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL) << "as on Linux";
}

TEST_F(RdmaCm, ListenersOnAllAddressesOfTwoFamiliesShareAPort) {
  rdma_cm_id* const ipv4 = Listen();
  rdma_cm_id* const ipv6 = passive.MakeId();
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_port = htons(port);
  EXPECT_EQ(rdma_bind_addr(ipv6, reinterpret_cast<sockaddr*>(&all)), -1) << "it would get IPv4's requests";
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  int only = 1;
  ASSERT_EQ(rdma_set_option(ipv6, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
  ASSERT_EQ(rdma_bind_addr(ipv6, reinterpret_cast<sockaddr*>(&all)), 0) << strerror(errno);
  ASSERT_EQ(rdma_listen(ipv6, 8), 0) << strerror(errno);
  ASSERT_EQ(Connect(Resolve()), 0);
  EXPECT_EQ(passive.Next().listener, ipv4);
}

TEST_F(RdmaCm, ListenersOnTwoAddressesShareAPort) {
  rdma_cm_id* const first = Listen(RDMA_PS_TCP, 8, INADDR_LOOPBACK);
  rdma_cm_id* const second = passive.MakeId();
  sockaddr_in address = Address(port, INADDR_LOOPBACK + 1);
  ASSERT_EQ(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&address)), 0) << strerror(errno);
  ASSERT_EQ(rdma_listen(second, 8), 0) << strerror(errno);
  for (const auto& [ip, listener] : {std::pair(INADDR_LOOPBACK, first), {INADDR_LOOPBACK + 1, second}}) {
    ASSERT_EQ(Connect(Resolve(RDMA_PS_TCP, active, ip)), 0);
    const Event request = passive.Next();
    EXPECT_EQ(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request.listener, listener);
  }
}

TEST_F(RdmaCm, AListenerOnOneAddressIsNotReachedAtOthers) {
  Listen(RDMA_PS_TCP, 8, INADDR_LOOPBACK);
  ASSERT_EQ(Connect(Resolve(RDMA_PS_TCP, active, INADDR_LOOPBACK + 2)), 0);
  const Event rejected = active.Next();
  EXPECT_EQ(rejected.kind, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.status, 8) << "the service does not exist";
}

TEST_F(RdmaCm, DisconnectsBothSides) {
  const Pair pair = Establish();
  EXPECT_EQ(rdma_disconnect(pair.active), 0);
  EXPECT_EQ(passive.Next().kind, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(pair.passive), 0);
  EXPECT_EQ(active.Next().kind, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(active.Next().kind, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(passive.Next().kind, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(rdma_disconnect(pair.active), 0) << "as on Linux, a second disconnect succeeds";
}

TEST_F(RdmaCm, CarriesPrivateDataBothWays) {
  Listen();
  rdma_cm_id* const id = Resolve();
  ASSERT_EQ(Connect(id, "hello"), 0);
  const Event request = passive.Next();
  ASSERT_EQ(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.private_data.size(), 56u);
  EXPECT_EQ(request.private_data.substr(0, 6), std::string("hello\0", 6));
  MakeQueuePair(request.id);
  rdma_conn_param parameters{};
  parameters.private_data = "welcome";
  parameters.private_data_len = 7;
  ASSERT_EQ(rdma_accept(request.id, &parameters), 0);
  const Event reply = active.Next();
  EXPECT_EQ(reply.kind, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(reply.private_data.substr(0, 7), "welcome");
}

TEST_F(RdmaCm, RefusesPrivateDataThatDoesNotFit) {
  Listen();
  rdma_cm_id* const id = Resolve();
  EXPECT_EQ(Connect(id, std::string(57, 'x')), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Connect(id, std::string(56, 'x')), 0);
}

TEST_F(RdmaCm, ReportsARejection) {
  Listen();
  ASSERT_EQ(Connect(Resolve()), 0);
  const Event request = passive.Next();
  ASSERT_EQ(rdma_reject(request.id, "no", 2), 0);
  const Event rejected = active.Next();
  EXPECT_EQ(rejected.kind, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(rejected.private_data.substr(0, 2), "no");
}

TEST_F(RdmaCm, RejectsConnectionsWithoutAListener) {
  port = 7;
  ASSERT_EQ(Connect(Resolve()), 0);
  const Event rejected = active.Next();
  EXPECT_EQ(rejected.kind, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.status, 8) << "the service does not exist";
}

TEST_F(RdmaCm, RejectsConnectionsBeyondTheBacklog) {
  Listen(RDMA_PS_TCP, 1);
  ASSERT_EQ(Connect(Resolve()), 0);
  ASSERT_TRUE(Readable(passive.get()->fd, kDeadlineMs));
  rdma_cm_id* const second = Resolve();
  ASSERT_EQ(Connect(second), 0);
  const Event rejected = active.Next();
  EXPECT_EQ(rejected.kind, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.id, second);
}

TEST_F(RdmaCm, DisconnectsWhenThePeerDestroysItsId) {
  Listen();
  rdma_cm_id* passive_id = nullptr;
  {
    Channel other;
    rdma_cm_id* const id = Resolve(RDMA_PS_TCP, other);
    ASSERT_EQ(Connect(id), 0);
    passive_id = passive.Next().id;
    MakeQueuePair(passive_id);
    ASSERT_EQ(rdma_accept(passive_id, nullptr), 0);
    EXPECT_EQ(other.Next().kind, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(passive.Next().kind, RDMA_CM_EVENT_ESTABLISHED);
  }
  const Event event = passive.Next();
  EXPECT_EQ(event.kind, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(event.id, passive_id);
}

TEST_F(RdmaCm, FindsDatagramServices) {
  Listen(RDMA_PS_UDP);
  rdma_cm_id* const id = Resolve(RDMA_PS_UDP);
  ASSERT_EQ(Connect(id), 0);
  const Event request = passive.Next();
  ASSERT_EQ(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
  MakeQueuePair(request.id);
  ASSERT_EQ(rdma_accept(request.id, nullptr), 0) << strerror(errno);
  const Event found = active.Next();
  EXPECT_EQ(found.kind, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(found.datagram.qp_num, request.id->qp->qp_num);
  EXPECT_EQ(found.datagram.qkey, RDMA_UDP_QKEY);
  EXPECT_EQ(found.datagram.ah_attr.is_global, 1);
}

TEST_F(RdmaCm, RefusesASecondListenerOnAPort) {
  Listen();
  rdma_cm_id* const second = passive.MakeId();
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  EXPECT_EQ(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&any)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL) << "as on Linux";
}

TEST_F(RdmaCm, RefusesToBindAForeignAddress) {
  sockaddr_in foreign = Loopback(0);
  foreign.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1 belongs to no host
  EXPECT_EQ(rdma_bind_addr(passive.MakeId(), reinterpret_cast<sockaddr*>(&foreign)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST_F(RdmaCm, RefusesStepsOutOfOrder) {
  rdma_cm_id* const id = active.MakeId();
  EXPECT_EQ(rdma_listen(id, 1), 0);
  sockaddr_in to = Loopback(7);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 100), -1);
  EXPECT_EQ(errno, EINVAL);
}

class RdmaCmGroup : public RdmaCm {
 protected:
  /// A member of the group, and what it has received last.
  struct Member {
    rdma_cm_id* id;
    Event joined;
    std::array<char, sizeof(ibv_grh) + 8> memory{};
    ibv_mr* mr = nullptr;
  };
  void Join(Member& member, Channel& channel) {
    member.id = channel.MakeId(RDMA_PS_UDP);
    ASSERT_EQ(rdma_resolve_addr(member.id, nullptr, address(), 2000), 0) << strerror(errno);
    ASSERT_EQ(channel.Next().kind, RDMA_CM_EVENT_ADDR_RESOLVED);
    MakeQueuePair(member.id);
    member.mr = rdma_reg_msgs(member.id, member.memory.data(), member.memory.size());
    ASSERT_EQ(rdma_join_multicast(member.id, address(), &member), 0) << strerror(errno);
    member.joined = channel.Next();
    ASSERT_EQ(member.joined.kind, RDMA_CM_EVENT_MULTICAST_JOIN);
    EXPECT_EQ(member.joined.status, 0);
    EXPECT_EQ(member.joined.id, member.id);
    EXPECT_EQ(member.joined.datagram.private_data, &member);
    EXPECT_EQ(member.joined.datagram.qp_num, 0xffffffu);
    EXPECT_EQ(member.joined.datagram.qkey, uint32_t{RDMA_UDP_QKEY});
  }
  void Receive(Member& member) {
    ASSERT_EQ(rdma_post_recv(member.id, nullptr, member.memory.data(), member.memory.size(), member.mr), 0);
  }
  void Send(Member& from) {
    ibv_ah* const to = ibv_create_ah(from.id->pd, &from.joined.datagram.ah_attr);
    ASSERT_NE(to, nullptr);
    ASSERT_EQ(rdma_post_ud_send(from.id, nullptr, from.memory.data(), 4, from.mr, 0, to,
                                from.joined.datagram.qp_num),
              0);
    ibv_wc completion{};
    ASSERT_EQ(rdma_get_send_comp(from.id, &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_destroy_ah(to), 0);
  }
  sockaddr* address() { return reinterpret_cast<sockaddr*>(&group); }

  sockaddr_in group = Address(0, 0xef530702);  // 239.83.7.2
};

TEST_F(RdmaCmGroup, CarriesDatagramsToItsMembers) {
  Member one{}, two{};
  ASSERT_NO_FATAL_FAILURE(Join(one, active));
  ASSERT_NO_FATAL_FAILURE(Join(two, passive));
  for (Member* const member : {&one, &two}) Receive(*member);
  Send(one);
  for (Member* const member : {&one, &two}) {
    ibv_wc completion{};
    ASSERT_EQ(rdma_get_recv_comp(member->id, &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.byte_len, sizeof(ibv_grh) + 4);
    Receive(*member);
  }
  ASSERT_EQ(rdma_leave_multicast(two.id, address()), 0) << strerror(errno);
  EXPECT_EQ(rdma_leave_multicast(two.id, address()), -1);
  Send(one);
  ibv_wc completion{};
  ASSERT_EQ(rdma_get_recv_comp(one.id, &completion), 1);
  EXPECT_EQ(ibv_poll_cq(two.id->recv_cq, 1, &completion), 0);
  ASSERT_EQ(rdma_leave_multicast(one.id, address()), 0) << strerror(errno);
  for (Member* const member : {&one, &two}) rdma_dereg_mr(member->mr);
}

TEST_F(RdmaCmGroup, IsLeftBeforeItsEventIsRead) {
  rdma_cm_id* const id = active.MakeId(RDMA_PS_UDP);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, address(), 2000), 0) << strerror(errno);
  ASSERT_EQ(active.Next().kind, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_join_multicast(id, address(), nullptr), 0) << strerror(errno);
  ASSERT_TRUE(Readable(active.get()->fd, kDeadlineMs));
  ASSERT_EQ(rdma_leave_multicast(id, address()), 0) << strerror(errno);
  EXPECT_FALSE(Readable(active.get()->fd, 0));
}

TEST_F(RdmaCmGroup, TakesIdsForDatagramsOnly) {
  rdma_cm_id* const id = active.MakeId();
  sockaddr_in own = Loopback(0);
  ASSERT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&own)), 0) << strerror(errno);
  EXPECT_EQ(rdma_join_multicast(id, address(), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_join_multicast(passive.MakeId(RDMA_PS_UDP), address(), nullptr), -1) << "it has no device";
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RdmaCm, MovesAnIdWithItsEvents) {
  Listen();
  rdma_cm_id* const id = Resolve();
  Channel other;
  ASSERT_EQ(Connect(id), 0);
  ASSERT_TRUE(Readable(passive.get()->fd, kDeadlineMs));
  ASSERT_EQ(rdma_reject(passive.Next().id, nullptr, 0), 0);
  ASSERT_TRUE(Readable(active.get()->fd, kDeadlineMs));
  ASSERT_EQ(active.Migrate(id, other), 0) << strerror(errno);
  EXPECT_FALSE(Readable(active.get()->fd, 0));
  EXPECT_EQ(other.Next().kind, RDMA_CM_EVENT_REJECTED);
}

TEST_F(RdmaCm, MovesAListenerWithItsRequests) {
  rdma_cm_id* const listener = Listen();
  ASSERT_EQ(Connect(Resolve()), 0);
  ASSERT_TRUE(Readable(passive.get()->fd, kDeadlineMs));
  ASSERT_EQ(passive.Migrate(listener, active), 0) << strerror(errno);
  const Event request = active.Next();
  ASSERT_EQ(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(rdma_reject(request.id, nullptr, 0), 0) << strerror(errno);
}

TEST_F(RdmaCm, RefusesToListenWithoutALink) {
  auto* const set_link =
      reinterpret_cast<decltype(&softhca_set_link)>(dlsym(RTLD_DEFAULT, "softhca_set_link"));
  ASSERT_NE(set_link, nullptr);
  rdma_cm_id* const id = passive.MakeId();
  sockaddr_in any{};
  any.sin_family = AF_INET;
  ASSERT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)), 0) << strerror(errno);
  ASSERT_EQ(set_link("mlx5_0", 1, 0), 0);
  EXPECT_EQ(rdma_listen(id, 1), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  ASSERT_EQ(set_link("mlx5_0", 1, 1), 0);
  EXPECT_EQ(rdma_listen(id, 1), 0) << strerror(errno);
}

TEST_F(RdmaCm, ReturnsAtOnceOnANonBlockingChannel) {
  const int fd = active.get()->fd;
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(active.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(RdmaCm, ClosesChannelsWithUnreadEvents) {
  Listen();
  ASSERT_EQ(Connect(Resolve()), 0);
  ASSERT_TRUE(Readable(passive.get()->fd, kDeadlineMs));  // then the channels are destroyed
}

}  // namespace
}  // namespace ucma
