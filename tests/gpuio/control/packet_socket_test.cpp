#include "gpuio/control/packet_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "gpuio/control/messages.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

struct PacketPair {
  PacketPair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    a = host::FileDescriptor(ends[0]);
    b = host::FileDescriptor(ends[1]);
  }
  host::FileDescriptor a, b;
};

TEST(PacketSocket, CarriesBytesAndAFile) {
  const PacketPair pair;
  const host::FileDescriptor file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const std::vector<uint8_t> bytes{1, 2, 3};
  ASSERT_EQ(SendPacket(pair.a.get(), bytes, file.get()), 0);
  Packet packet;
  ASSERT_EQ(ReceivePacket(pair.b.get(), packet), 0);
  EXPECT_EQ(packet.bytes, bytes);
  ASSERT_TRUE(packet.file);
  EXPECT_NE(fcntl(packet.file.get(), F_GETFD) & FD_CLOEXEC, 0);
  struct stat sent {
  }, received{};
  fstat(file.get(), &sent);
  fstat(packet.file.get(), &received);
  EXPECT_EQ(sent.st_ino, received.st_ino);
}

TEST(PacketSocket, SaysThatThereIsNothing) {
  PacketPair pair;
  Packet packet;
  EXPECT_EQ(ReceivePacket(pair.b.get(), packet), EAGAIN);
  pair.a.Close();
  EXPECT_EQ(ReceivePacket(pair.b.get(), packet), EPIPE);
  EXPECT_EQ(SendPacket(pair.b.get(), std::vector<uint8_t>{1}), EPIPE);
}

TEST(PacketSocket, RefusesPacketsThatAreTooLong) {
  const PacketPair pair;
  ASSERT_EQ(SendPacket(pair.a.get(), std::vector<uint8_t>(kMaxControlBytes + 1)), 0);
  Packet packet;
  EXPECT_EQ(ReceivePacket(pair.b.get(), packet), EMSGSIZE);
}

TEST(PacketSocket, ListensForItsOwnerOnly) {
  const std::string path = testing::TempDir() + "packet_socket_test." + std::to_string(getpid());
  host::FileDescriptor listening, connected;
  ASSERT_EQ(ListenForPackets(path, listening), 0);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(ConnectPackets(path, connected), 0);
  host::FileDescriptor second;
  EXPECT_EQ(ListenForPackets(path, second), EADDRINUSE);
  unlink(path.c_str());
  EXPECT_EQ(ConnectPackets(path, connected), ENOENT);
  EXPECT_EQ(ConnectPackets(std::string(200, 'a'), connected), ENAMETOOLONG);
  EXPECT_EQ(ConnectPackets("", connected), ENAMETOOLONG);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
