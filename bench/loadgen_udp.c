/* A load generator for `floor_udp.c`: requests of 1,200 bytes, the length that QUIC clients pad theirs to, at a constant rate.
 *
 * A batch of requests is sent at a time, each on an idle connection, so that the floor's wake-ups find as many as those of
 * the server that it is compared with. A response has a fixed number of bytes, in any number of datagrams. The generator never
 * sleeps, and connects to 127.0.0.1 only. A lost datagram ends the run with a failure.
 *
 *     cc -O2 -o loadgen_udp bench/loadgen_udp.c
 *     taskset --cpu-list 1 ./loadgen_udp PORT CONNECTIONS MILLISECONDS RESPONSE_BYTES RATE BATCH
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    REQUEST_BYTES = 1200,
    DATAGRAM_BYTES_MAX = 2048,
    RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024,
};

/* Limit for responses that are missing. */
static const double TIMEOUT_SECONDS = 5.0;

struct connection {
    int socket;
    /* Bytes of the response in flight that have not arrived yet. */
    long missing;
};

static struct connection connections[CONNECTIONS_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "loadgen_udp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *why)
{
    fprintf(stderr, "loadgen_udp: %s\n", why);
    exit(2);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void connect_all(unsigned short port, long count)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int bytes = RECEIVE_BUFFER_BYTES;
    for (long number = 0; number < count; number++) {
        int connection = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (connection < 0)
            fail("socket");
        if (setsockopt(connection, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0)
            fail("SO_RCVBUF");
        if (connect(connection, (struct sockaddr *)&address, sizeof address) < 0)
            fail("connect");
        connections[number].socket = connection;
    }
}

/* Receives what has arrived. Returns 1 if the response is complete. */
static int receive(struct connection *connection)
{
    char datagram[DATAGRAM_BYTES_MAX];
    ssize_t count;
    while (connection->missing > 0 &&
           (count = recv(connection->socket, datagram, sizeof datagram, MSG_DONTWAIT)) >= 0)
        connection->missing -= count;
    if (connection->missing < 0)
        refuse("a response is too long");
    if (connection->missing > 0 && errno != EAGAIN)
        fail("recv");
    return connection->missing == 0;
}

/* Returns the number of requests that were sent and answered. */
static long run(double seconds, double rate, long batch, long count, long bytes)
{
    static const char REQUEST[REQUEST_BYTES];
    double started = now(), time = started, scheduled = started;
    long sent = 0, answered = 0, next = 0;
    while (scheduled < started + seconds || answered < sent) {
        if (time > started + seconds + TIMEOUT_SECONDS)
            refuse("a response is missing, or the rate is too high");
        /* A batch waits until there are enough idle connections. */
        while (scheduled <= time && scheduled < started + seconds && count - (sent - answered) >= batch) {
            for (long place = 0; place < batch; next = (next + 1) % count) {
                if (connections[next].missing > 0)
                    continue;
                if (send(connections[next].socket, REQUEST, sizeof REQUEST, MSG_DONTWAIT) != sizeof REQUEST)
                    fail("send");
                connections[next].missing = bytes;
                sent++;
                place++;
            }
            scheduled = started + (double)sent / rate;
        }
        for (struct connection *connection = connections; connection < connections + count; connection++)
            if (connection->missing > 0 && receive(connection))
                answered++;
        time = now();
    }
    return answered;
}

int main(int argc, char **argv)
{
    int is_complete = argc == 7;
    long port = is_complete ? strtol(argv[1], NULL, 10) : 0;
    long count = is_complete ? strtol(argv[2], NULL, 10) : 0;
    long milliseconds = is_complete ? strtol(argv[3], NULL, 10) : 0;
    long bytes = is_complete ? strtol(argv[4], NULL, 10) : 0;
    double rate = is_complete ? strtod(argv[5], NULL) : 0.0;
    long batch = is_complete ? strtol(argv[6], NULL, 10) : 0;
    if (port < 1 || port > 65535 || count < 1 || count > CONNECTIONS_MAX || milliseconds < 1 || bytes < 1 ||
        !(rate > 0.0) || batch < 1 || batch > count)
        refuse("usage: loadgen_udp PORT CONNECTIONS MILLISECONDS RESPONSE_BYTES RATE BATCH");
    connect_all((unsigned short)port, count);
    double started = now();
    long answered = run((double)milliseconds / 1000.0, rate, batch, count, bytes);
    printf("requests: %ld\nseconds: %.6f\n", answered, now() - started);
    return 0;
}
