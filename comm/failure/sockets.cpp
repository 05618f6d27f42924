#include "comm/failure/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/core/error.h"

namespace oxrse::comm::guard {
namespace {

constexpr timeval kPatience = {.tv_sec = 3, .tv_usec = 0};

void set(int descriptor, int level, int option, int value) { setsockopt(descriptor, level, option, &value, sizeof value); }

/// Notices within some ten seconds when the machine at the other end is gone.
void keep_alive(int descriptor) {
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);  // of connect() too
}

sockaddr_in endpoint(std::uint32_t ipv4, std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = ipv4;
  return address;
}

std::string text_of(std::uint32_t ipv4) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const in_addr address = {.s_addr = ipv4};
  return inet_ntop(AF_INET, &address, text.data(), text.size());
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket listen_anywhere(bool local, std::uint16_t& port) {
  Socket listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = endpoint(htonl(local ? INADDR_LOOPBACK : INADDR_ANY), 0);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  require(listening.is_open() && bind(listening.descriptor(), generic, length) == 0 && ::listen(listening.descriptor(), 16) == 0 &&
              getsockname(listening.descriptor(), generic, &length) == 0,
          "cannot take connections: {}", std::strerror(errno));
  port = ntohs(address.sin_port);
  return listening;
}

GuardAddress this_machine() {
  GuardAddress here;
  gethostname(here.host.data(), here.host.size() - 1);
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return here;
  std::size_t count = 0;
  for (const ifaddrs* i = first; i != nullptr && count < here.ipv4.size(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    here.ipv4[count++] = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr;
  }
  freeifaddrs(first);
  return here;
}

Socket connect_to(const GuardAddress& address) {
  std::vector<std::uint32_t> candidates;
  if (std::strcmp(address.host.data(), this_machine().host.data()) == 0) candidates.push_back(htonl(INADDR_LOOPBACK));
  for (const std::uint32_t ipv4 : address.ipv4) {
    if (ipv4 != 0) candidates.push_back(ipv4);
  }
  std::string tried;
  for (const std::uint32_t ipv4 : candidates) {
    Socket connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    keep_alive(connection.descriptor());
    const sockaddr_in at = endpoint(ipv4, address.port);
    if (connect(connection.descriptor(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return connection;
    tried += fmt::format(", {}:{}: {}", text_of(ipv4), address.port, std::strerror(errno));
  }
  fail("host {} is not reached{}", address.host.data(), tried);
}

Socket accept_one(const Socket& listening) {
  Socket connection(accept4(listening.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.is_open()) keep_alive(connection.descriptor());
  return connection;
}

bool send_all(int descriptor, const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(descriptor, next, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    next += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int descriptor, void* data, std::size_t bytes) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(descriptor, next, bytes, 0);
    if (received <= 0) return false;
    next += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return true;
}

}  // namespace oxrse::comm::guard
