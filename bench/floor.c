/* The floor: the least work with which one thread can send HTTP responses through epoll.
 *
 * On an established connection it calls epoll_wait, read and write only. It parses nothing: any bytes that arrive in
 * one read get the next of its responses. It is not a server and must never be reachable from outside: it listens on
 * 127.0.0.1 only. CPU time that a real server needs beyond the floor's is the server's own.
 *
 * It is edge-triggered, so a connection is registered once for both directions. Level-triggered costs the same: with 64
 * connections, medians of CPU time per request were 4.30 us (level) and 4.81 us (edge) over five alternating runs,
 * then 4.33 us and 4.35 us over nine, and single runs of either were between 3.7 and 5.0 us.
 *
 *     cc -O2 -o floor bench/floor.c && ./floor PORT [BODY]
 *     ./floor PORT --answers FILE PROCESSES
 *
 * FILE holds complete responses, each after its length as eight bytes, least significant first.
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 512,
    REQUEST_BYTES_MAX = 16 * 1024,
    BACKLOG = 4096,
    DESCRIPTORS_MAX = 64 * 1024,
    LENGTH_BYTES = 8,
    PROCESSES_MAX = 64,
    /* Prime and larger than any list: responses are sent in an order that caches don't predict, as for random
     * requests. */
    STEP = 1000003,
};

struct piece {
    const char *at;
    size_t bytes;
};

static struct piece *answers;
static size_t answer_count;

/* The unsent part of a response, for each connection by its descriptor. */
static struct piece unsent[DESCRIPTORS_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *why)
{
    fprintf(stderr, "floor: %s\n", why);
    exit(2);
}

static void add_answer(const char *at, size_t bytes)
{
    answers = reallocarray(answers, answer_count + 1, sizeof *answers);
    if (!answers)
        fail("memory for the answers");
    answers[answer_count++] = (struct piece){ at, bytes };
}

static void prepare_answer(const char *body)
{
    char *answer;
    int length = asprintf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    if (length < 0)
        fail("memory for the answer");
    add_answer(answer, (size_t)length);
}

static void read_answers(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) < 0)
        fail(path);
    long end = ftell(file);
    if (end < 0)
        fail(path);
    size_t bytes = (size_t)end, at = 0;
    char *text = malloc(bytes + 1);
    rewind(file);
    if (!text || fread(text, 1, bytes, file) != bytes)
        fail(path);
    fclose(file);
    while (bytes - at >= LENGTH_BYTES) {
        uint64_t length = 0;
        for (int i = 0; i < LENGTH_BYTES; i++)
            length |= (uint64_t)(unsigned char)text[at + i] << (8 * i);
        at += LENGTH_BYTES;
        if (length == 0 || length > bytes - at)
            refuse("an answer is longer than the file, or empty");
        add_answer(text + at, length);
        at += length;
    }
    if (at != bytes || answer_count == 0 || answer_count >= STEP)
        refuse("the file is not a list of answers");
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
    /* Without it, a second run on the same port would wait a minute for old connections. */
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("SO_REUSEADDR");
    /* Each process has a listener of its own; the kernel distributes connections among them. */
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
        fail("SO_REUSEPORT");
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
        if (connection >= DESCRIPTORS_MAX)
            refuse("too many connections");
        if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
            fail("TCP_NODELAY");
        unsent[connection].bytes = 0;
        watch(poll, connection, EPOLLIN | EPOLLOUT | EPOLLET);
    }
    /* A client may disconnect before it is accepted. */
    if (errno != EAGAIN && errno != ECONNABORTED)
        fail("accept4");
}

/* Writes as much as the kernel accepts; the rest follows when the socket is writable. */
static void send_piece(int connection, struct piece piece)
{
    ssize_t sent = write(connection, piece.at, piece.bytes);
    if (sent < 0 && errno != EAGAIN) {
        close(connection);
        return;
    }
    size_t taken = sent < 0 ? 0 : (size_t)sent;
    unsent[connection] = (struct piece){ piece.at + taken, piece.bytes - taken };
}

/* One read, one response: a request is smaller than the buffer. */
static void answer_once(int connection)
{
    static char request[REQUEST_BYTES_MAX];
    static size_t next;
    ssize_t received = read(connection, request, sizeof request);
    if (received < 0 && errno == EAGAIN)
        return;
    if (received <= 0) {
        close(connection);
        return;
    }
    send_piece(connection, answers[next]);
    if (answer_count > 1)
        next = (next + STEP) % answer_count;
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
            int descriptor = events[i].data.fd;
            if (descriptor == listener)
                accept_all(poll, listener);
            else if (unsent[descriptor].bytes > 0)
                send_piece(descriptor, unsent[descriptor]);
            else if (events[i].events & ~EPOLLOUT)
                answer_once(descriptor);
        }
    }
}

/* Forks a process for each listener. The others exit with the first one. */
static int fork_all(const int *listeners, long processes)
{
    for (long number = 1; number < processes; number++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
                fail("PR_SET_PDEATHSIG");
            return listeners[number];
        }
    }
    return listeners[0];
}

int main(int argc, char **argv)
{
    int has_list = argc == 5 && strcmp(argv[2], "--answers") == 0;
    long port = argc < 2 ? 0 : strtol(argv[1], NULL, 10);
    long processes = has_list ? strtol(argv[4], NULL, 10) : 1;
    if ((argc > 3 && !has_list) || port < 1 || port > 65535 || processes < 1 || processes > PROCESSES_MAX)
        refuse("usage: floor PORT [BODY] | floor PORT --answers FILE PROCESSES");
    if (has_list)
        read_answers(argv[3]);
    else
        prepare_answer(argc == 3 ? argv[2] : "hello world!\n");
    signal(SIGPIPE, SIG_IGN);
    /* All listeners exist before the processes, so no connection arrives too early. */
    int listeners[PROCESSES_MAX];
    for (long number = 0; number < processes; number++)
        listeners[number] = listen_on((unsigned short)port);
    printf("http://127.0.0.1:%ld/\n", port);
    fflush(stdout);
    serve(fork_all(listeners, processes));
}
