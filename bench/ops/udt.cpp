// UDT (Gu and Grossman, Computer Networks 51, 2007; libudt 4) from memory to memory, until it is killed.
//
// udt receive ADDRESS PORT WINDOW_BYTES    prints "ready", then the bytes of payload of each second, a line each
// udt send ADDRESS PORT WINDOW_BYTES       the same of what it handed to UDT
//
// WINDOW_BYTES is the size of UDT's buffers, of its socket's, and of its flow window.
#include <arpa/inet.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <udt/udt.h>

namespace {

const int CHUNK_BYTES = 1 << 20;
const int PACKET_BYTES = 1472;  // of UDT's default MSS of 1500, without the headers of IP and UDP

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "udt: %s: %s\n", what, UDT::getlasterror().getErrorMessage());
    std::_Exit(1);
}

// Prints the bytes of each whole second.
class Meter {
  public:
    void count(int64_t bytes) {
        bytes_ += bytes;
        const auto now = std::chrono::steady_clock::now();
        const double elapsed_s = std::chrono::duration<double>(now - since_).count();
        if (elapsed_s < 1) return;
        std::printf("%.0f\n", bytes_ / elapsed_s);
        std::fflush(stdout);
        bytes_ = 0;
        since_ = now;
    }

  private:
    int64_t bytes_ = 0;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

UDTSOCKET opened(int window_bytes) {
    const UDTSOCKET made = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (made == UDT::INVALID_SOCK) fail("socket");
    const int packets = window_bytes / PACKET_BYTES;
    for (const auto option : {UDT_SNDBUF, UDT_RCVBUF, UDP_SNDBUF, UDP_RCVBUF}) {
        if (UDT::setsockopt(made, 0, option, &window_bytes, sizeof window_bytes) == UDT::ERROR) fail("buffers");
    }
    if (UDT::setsockopt(made, 0, UDT_FC, &packets, sizeof packets) == UDT::ERROR) fail("flow window");
    return made;
}

void receive(const sockaddr_in& at, int window_bytes) {
    const UDTSOCKET listener = opened(window_bytes);
    if (UDT::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) == UDT::ERROR) fail("bind");
    if (UDT::listen(listener, 1) == UDT::ERROR) fail("listen");
    std::puts("ready");
    std::fflush(stdout);
    sockaddr_in peer{};
    int size = sizeof peer;
    const UDTSOCKET from = UDT::accept(listener, reinterpret_cast<sockaddr*>(&peer), &size);
    if (from == UDT::INVALID_SOCK) fail("accept");
    std::vector<char> chunk(CHUNK_BYTES);
    Meter meter;
    for (;;) {
        const int got = UDT::recv(from, chunk.data(), CHUNK_BYTES, 0);
        if (got == UDT::ERROR) fail("recv");
        meter.count(got);
    }
}

void send(const sockaddr_in& to, int window_bytes) {
    const UDTSOCKET out = opened(window_bytes);
    if (UDT::connect(out, reinterpret_cast<const sockaddr*>(&to), sizeof to) == UDT::ERROR) fail("connect");
    const std::vector<char> chunk(CHUNK_BYTES);
    Meter meter;
    for (;;) {
        const int sent = UDT::send(out, chunk.data(), CHUNK_BYTES, 0);
        if (sent == UDT::ERROR) fail("send");
        meter.count(sent);
    }
}

}  // namespace

int main(int count, char** words) {
    const bool sends = count == 5 && !std::strcmp(words[1], "send");
    const bool receives = count == 5 && !std::strcmp(words[1], "receive");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if ((!sends && !receives) || inet_pton(AF_INET, words[2], &address.sin_addr) != 1) {
        std::fputs("usage: udt send|receive ADDRESS PORT WINDOW_BYTES\n", stderr);
        return 2;
    }
    address.sin_port = htons(static_cast<uint16_t>(std::atoi(words[3])));
    const int window_bytes = std::atoi(words[4]);
    UDT::startup();
    sends ? send(address, window_bytes) : receive(address, window_bytes);
}
