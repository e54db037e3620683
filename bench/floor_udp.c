/* The floor over UDP: the least work with which one thread can answer datagrams through epoll.
 *
 * It calls epoll_wait, recvmmsg and sendmmsg only, with the destination address of each datagram as a server needs it that
 * answers from the same address. It parses and encrypts nothing: every datagram gets a response of BYTES. If that exceeds
 * one datagram, it leaves in trains (UDP_SEGMENT). CPU time that a QUIC server needs beyond the floor's is the server's own.
 * It is not a server and must never be reachable from outside: it listens on 127.0.0.1 only.
 *
 *     cc -O2 -o floor_udp bench/floor_udp.c && ./floor_udp PORT BYTES
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BATCH = 64,
    REQUEST_BYTES_MAX = 2048,
    /* The payload of a datagram, as QUIC servers send it over Ethernet. */
    DATAGRAM_BYTES = 1452,
    /* As many whole datagrams as a train may have: less than 64 KiB. */
    TRAIN_BYTES = 44 * DATAGRAM_BYTES,
    RESPONSE_BYTES_MAX = 16 * 1024 * 1024,
    RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024,
};

union control {
    char bytes[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr alignment;
};

static char requests[BATCH][REQUEST_BYTES_MAX], response[TRAIN_BYTES];
static struct sockaddr_in clients[BATCH];
static union control received_control[BATCH], sent_control[BATCH];
static struct iovec received_parts[BATCH], sent_parts[BATCH];
static struct mmsghdr received[BATCH], sent[BATCH];
static unsigned sent_count;

static void fail(const char *what)
{
    fprintf(stderr, "floor_udp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_socket(int type, unsigned short port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1, bytes = RECEIVE_BUFFER_BYTES;
    int socket_ = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0)
        fail("socket");
    if (setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("SO_REUSEADDR");
    if (type == SOCK_DGRAM && (setsockopt(socket_, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) < 0 ||
                               setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0))
        fail("setsockopt");
    if (bind(socket_, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    return socket_;
}

static void flush(int socket_)
{
    for (unsigned done = 0; done < sent_count;) {
        int count = sendmmsg(socket_, sent + done, sent_count - done, MSG_DONTWAIT);
        if (count > 0) {
            done += (unsigned)count;
        } else if (errno == EAGAIN) {
            struct pollfd writable = { .fd = socket_, .events = POLLOUT };
            poll(&writable, 1, -1);
        } else if (errno == ECONNREFUSED) {
            /* An earlier client has gone. */
        } else {
            fail("sendmmsg");
        }
    }
    sent_count = 0;
}

static void add_train(int socket_, const struct msghdr *request, size_t bytes)
{
    struct msghdr *message = &sent[sent_count].msg_hdr;
    sent_parts[sent_count] = (struct iovec){ response, bytes };
    *message = (struct msghdr){
        .msg_name = request->msg_name,
        .msg_namelen = request->msg_namelen,
        .msg_iov = &sent_parts[sent_count],
        .msg_iovlen = 1,
        .msg_control = &sent_control[sent_count],
        .msg_controllen = sizeof sent_control[sent_count],
    };
    /* The address that the request was sent to. */
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    struct cmsghdr *info = CMSG_FIRSTHDR(request);
    part->cmsg_level = IPPROTO_IP;
    part->cmsg_type = IP_PKTINFO;
    part->cmsg_len = CMSG_LEN(sizeof(struct in_pktinfo));
    memset(CMSG_DATA(part), 0, sizeof(struct in_pktinfo));
    if (info && info->cmsg_type == IP_PKTINFO)
        ((struct in_pktinfo *)CMSG_DATA(part))->ipi_spec_dst = ((struct in_pktinfo *)CMSG_DATA(info))->ipi_spec_dst;
    size_t control = CMSG_SPACE(sizeof(struct in_pktinfo));
    if (bytes > DATAGRAM_BYTES) {
        uint16_t segment = DATAGRAM_BYTES;
        part = CMSG_NXTHDR(message, part);
        part->cmsg_level = IPPROTO_UDP;
        part->cmsg_type = UDP_SEGMENT;
        part->cmsg_len = CMSG_LEN(sizeof segment);
        memcpy(CMSG_DATA(part), &segment, sizeof segment);
        control += CMSG_SPACE(sizeof segment);
    }
    message->msg_controllen = control;
    if (++sent_count == BATCH)
        flush(socket_);
}

static void serve(int socket_, size_t bytes)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN };
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, socket_, &event) < 0)
        fail("epoll");
    for (;;) {
        if (epoll_wait(epoll, &event, 1, -1) < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < BATCH; i++) {
            received_parts[i] = (struct iovec){ requests[i], REQUEST_BYTES_MAX };
            received[i].msg_hdr = (struct msghdr){
                .msg_name = &clients[i],
                .msg_namelen = sizeof clients[i],
                .msg_iov = &received_parts[i],
                .msg_iovlen = 1,
                .msg_control = &received_control[i],
                .msg_controllen = sizeof received_control[i],
            };
        }
        int count = recvmmsg(socket_, received, BATCH, MSG_DONTWAIT, NULL);
        if (count < 0 && errno != EAGAIN && errno != ECONNREFUSED)
            fail("recvmmsg");
        for (int i = 0; i < count; i++)
            for (size_t left = bytes; left > 0;) {
                size_t train = left < TRAIN_BYTES ? left : TRAIN_BYTES;
                add_train(socket_, &received[i].msg_hdr, train);
                left -= train;
            }
        flush(socket_);
    }
}

int main(int argc, char **argv)
{
    long port = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    long bytes = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (port < 1 || port > 65535 || bytes < 1 || bytes > RESPONSE_BYTES_MAX) {
        fprintf(stderr, "floor_udp: usage: floor_udp PORT BYTES\n");
        return 2;
    }
    int datagrams = open_socket(SOCK_DGRAM, (unsigned short)port);
    /* Only so that the benchmark sees that it has started. */
    if (listen(open_socket(SOCK_STREAM, (unsigned short)port), 16) < 0)
        fail("listen");
    serve(datagrams, (size_t)bytes);
}
