/* The ruler: the least work with which one thread can answer HTTP requests through epoll.
 *
 * After a connection stands it calls epoll_wait, read and write and nothing else. It parses nothing:
 * whatever arrives in one read gets one fixed answer. So it is no server, and it must never be reachable
 * from outside: it listens on 127.0.0.1 only. What a real server costs beyond it is the server's own.
 *
 * Level-triggered, the plainer way: bytes that one read leaves behind are reported again. Edge-triggered
 * was not cheaper: with 64 connections, medians of CPU time a request were 4.30 us (level) and 4.81 us
 * (edge) over five alternating runs, then 4.33 us and 4.35 us over nine, and single runs of either lay
 * between 3.7 and 5.0 us. Build with -DTRIGGER=EPOLLET to measure that again.
 *
 *     cc -O2 -o floor bench/floor.c && ./floor PORT [BODY]
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TRIGGER
#define TRIGGER 0
#endif

enum {
    EVENTS_MAX = 512,
    REQUEST_BYTES_MAX = 16 * 1024,
    ANSWER_BYTES_MAX = 1024 * 1024,
    BACKLOG = 4096,
};

static char answer[ANSWER_BYTES_MAX];
static size_t answer_bytes;

static void fail(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void prepare_answer(const char *body)
{
    int spelled = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    if (spelled < 0 || (size_t)spelled >= sizeof answer) {
        fprintf(stderr, "floor: the body is too long: at most 1 MiB with its head\n");
        exit(2);
    }
    answer_bytes = (size_t)spelled;
}

static int listen_on(unsigned short port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        fail("socket");
    /* Without it a second run on the same port would have to wait a minute for old connections. */
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("SO_REUSEADDR");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    if (listen(listener, BACKLOG) < 0)
        fail("listen");
    return listener;
}

static void watch(int poll, int descriptor, unsigned events)
{
    struct epoll_event event = { .events = events, .data.fd = descriptor };
    if (epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) < 0)
        fail("epoll_ctl");
}

static void accept_all(int poll, int listener)
{
    int connection;
    while ((connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
            fail("TCP_NODELAY");
        watch(poll, connection, EPOLLIN | TRIGGER);
    }
    /* A peer that is gone before it is accepted is no failure of ours. */
    if (errno != EAGAIN && errno != ECONNABORTED)
        fail("accept4");
}

/* One read, one answer. A request smaller than the buffer takes one read, and an answer smaller than the
 * socket's buffer leaves in one write; a shorter write ends the connection, and the load generator then
 * reports it. */
static void answer_once(int connection)
{
    static char request[REQUEST_BYTES_MAX];
    ssize_t received = read(connection, request, sizeof request);
    if (received < 0 && errno == EAGAIN)
        return;
    if (received <= 0 || write(connection, answer, answer_bytes) != (ssize_t)answer_bytes)
        close(connection);
}

static void serve(int listener)
{
    struct epoll_event events[EVENTS_MAX];
    int poll = epoll_create1(EPOLL_CLOEXEC);
    if (poll < 0)
        fail("epoll_create1");
    watch(poll, listener, EPOLLIN);
    for (;;) {
        int count = epoll_wait(poll, events, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(poll, listener);
            else
                answer_once(events[i].data.fd);
        }
    }
}

int main(int argc, char **argv)
{
    long port = argc < 2 ? 0 : strtol(argv[1], NULL, 10);
    if (argc > 3 || port < 1 || port > 65535) {
        fprintf(stderr, "usage: floor PORT [BODY]\n");
        return 2;
    }
    prepare_answer(argc == 3 ? argv[2] : "hello world!\n");
    signal(SIGPIPE, SIG_IGN);
    int listener = listen_on((unsigned short)port);
    printf("http://127.0.0.1:%ld/\n", port);
    fflush(stdout);
    serve(listener);
}
