/* A load generator for one question: how much more do two threads of a server answer than one?
 *
 * That shows only where all of them are busy, so it must cost less for a request than the server does. It asks for
 * the same again and again by send and recv and by nothing else: it goes round its connections, takes the answer
 * of each that has one, and sends the next request. There is no epoll, nothing is parsed, and the clock is looked
 * at once a round. It never sleeps, so that no server pays for waking it, however much or little it has to do.
 *
 * Every answer must be the one that was given, byte for byte but for the value of its date. The first that is not,
 * or a connection that ends, ends the run with a failure and without a figure.
 *
 * It is a process on each processor that it may use. `across` lets each of them ask all threads of the server;
 * `apart` deals the connections out by the processor that answers them, so that each thread is asked by as few of
 * them as can be. Over loopback that matters: the memory of a request is the generator's, as no client's is that
 * comes through a network, and two threads that are asked by one process share its bookkeeping.
 *
 * It connects to 127.0.0.1 only, and sends nothing but its one request.
 *
 *     cc -O2 -o asker bench/asker.c
 *     taskset --cpu-list 2,3 ./asker PORT CONNECTIONS MILLISECONDS REQUEST ANSWER apart|across
 *
 * REQUEST and ANSWER are files with the bytes of one of each.
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BYTES_MAX = 16 * 1024,
    CONNECTIONS_MAX = 16 * 1024,
    PROCESSORS_MAX = 64,
    DATE_BYTES = sizeof "Sun, 06 Nov 1994 08:49:37 GMT" - 1,
};

/* How long all connections are asked before it is looked which processor answers them: some tens of answers each. */
static const double SETTLING_SECONDS = 0.02;

/* How long the last answers may take. */
static const double PATIENCE_SECONDS = 5.0;

struct bytes {
    char at[BYTES_MAX];
    size_t count;
};

struct connection {
    int socket;
    /* Where the thread ran that answered last. */
    int processor;
    /* Of the answer on its way, the bytes that are here. */
    size_t received;
    int is_waiting;
};

/* What a process tells the first one. */
struct result {
    unsigned long requests;
    double ended;
    /* How many of its connections each processor answered at the end. */
    int answered_on[PROCESSORS_MAX];
};

static struct bytes request, answer;
/* Where the answer's date stands, of which nothing but the length is known beforehand. */
static size_t date_begin, date_end;
static struct connection connections[CONNECTIONS_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "asker: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *why)
{
    fprintf(stderr, "asker: %s\n", why);
    exit(2);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void read_bytes(const char *path, struct bytes *into)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    into->count = fread(into->at, 1, BYTES_MAX, file);
    if (ferror(file))
        fail(path);
    fclose(file);
    /* An answer is received with room for one byte more, which tells that it is too long. */
    if (into->count == 0 || into->count == BYTES_MAX)
        refuse("the request or the answer is empty, or longer than there is room for");
}

static void find_date(void)
{
    static const char FIELD[] = "\r\ndate: ";
    size_t name = sizeof FIELD - 1;
    for (size_t at = 0; at + name + DATE_BYTES <= answer.count; at++) {
        if (strncasecmp(answer.at + at, FIELD, name) == 0) {
            date_begin = at + name;
            date_end = date_begin + DATE_BYTES;
            return;
        }
    }
}

/* Whether these are the bytes of the answer from one place to another, but for its date. */
static int are_expected(const char *got, size_t from, size_t to)
{
    size_t before = to < date_begin ? to : date_begin;
    if (from < before && memcmp(got, answer.at + from, before - from) != 0)
        return 0;
    size_t after = from > date_end ? from : date_end;
    return after >= to || memcmp(got + (after - from), answer.at + after, to - after) == 0;
}

static void connect_all(unsigned short port, long count)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    for (long number = 0; number < count; number++) {
        int on = 1;
        int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connection < 0)
            fail("socket");
        if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
            fail("TCP_NODELAY");
        if (connect(connection, (struct sockaddr *)&address, sizeof address) < 0)
            fail("connect");
        connections[number] = (struct connection){ .socket = connection };
    }
}

static void ask(struct connection *connection)
{
    ssize_t sent = send(connection->socket, request.at, request.count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        fail("send");
    /* One request waits at a time, and is smaller than any buffer. */
    if ((size_t)sent != request.count)
        refuse("the kernel took a part of a request");
    connection->is_waiting = 1;
}

/* Takes what has come of an answer; tells whether that was the rest of it. */
static int take(struct connection *connection)
{
    char got[BYTES_MAX];
    size_t from = connection->received;
    ssize_t count = recv(connection->socket, got, answer.count + 1 - from, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN)
        return 0;
    if (count < 0)
        fail("recv");
    if (count == 0)
        refuse("the server closed a connection");
    size_t to = from + (size_t)count;
    if (to > answer.count || !are_expected(got, from, to))
        refuse("an answer is not the one that was given");
    connection->is_waiting = to < answer.count;
    connection->received = connection->is_waiting ? to : 0;
    return !connection->is_waiting;
}

/* Asks on some connections, again where there is an answer until the time is over, and then takes the last ones. */
static struct result ask_until(double ends, struct connection *from, long count)
{
    struct result result = { .requests = 0 };
    double time = now();
    long waiting = 0;
    for (; waiting < count; waiting++)
        ask(&from[waiting]);
    while (waiting > 0) {
        if (time > ends + PATIENCE_SECONDS)
            refuse("an answer is missing");
        for (struct connection *connection = from; connection < from + count; connection++) {
            if (!connection->is_waiting || !take(connection))
                continue;
            result.requests++;
            if (time < ends)
                ask(connection);
            else
                waiting--;
        }
        time = now();
    }
    result.ended = time;
    return result;
}

/* Over loopback the sender's processor does the receiver's part of the kernel's work, and a socket remembers where
 * that was done last. */
static void find_processors(struct connection *from, long count)
{
    for (struct connection *connection = from; connection < from + count; connection++) {
        socklen_t size = sizeof connection->processor;
        if (getsockopt(connection->socket, SOL_SOCKET, SO_INCOMING_CPU, &connection->processor, &size) < 0)
            fail("SO_INCOMING_CPU");
        if (connection->processor < 0 || connection->processor >= PROCESSORS_MAX)
            refuse("more processors than it has room for");
    }
}

static int by_processor(const void *one, const void *other)
{
    return ((const struct connection *)one)->processor - ((const struct connection *)other)->processor;
}

/* Puts this process on the place-th of the processors allowed. */
static void stay_on(const cpu_set_t *allowed, int place)
{
    int processor = 0;
    while (!CPU_ISSET(processor, allowed) || place-- > 0)
        processor++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof one, &one) < 0)
        fail("sched_setaffinity");
}

/* One process: asks on its connections, tells what it did, and ends. */
static void run_share(double ends, struct connection *from, long count, int results)
{
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        fail("PR_SET_PDEATHSIG");
    struct result result = ask_until(ends, from, count);
    find_processors(from, count);
    for (struct connection *connection = from; connection < from + count; connection++)
        result.answered_on[connection->processor]++;
    if (write(results, &result, sizeof result) != sizeof result)
        fail("write");
    exit(0);
}

/* Waits for all processes and sums up what they did. */
static struct result gather(int results, int processes)
{
    int failures = 0, status;
    while (wait(&status) > 0)
        failures += status != 0;
    if (failures > 0)
        exit(1);
    struct result sum = { .requests = 0 };
    for (int place = 0; place < processes; place++) {
        struct result one;
        if (read(results, &one, sizeof one) != sizeof one)
            fail("read");
        sum.requests += one.requests;
        sum.ended = one.ended > sum.ended ? one.ended : sum.ended;
        printf("a process whose connections were answered");
        for (int processor = 0; processor < PROCESSORS_MAX; processor++)
            if (one.answered_on[processor] > 0)
                printf(", %d on processor %d", one.answered_on[processor], processor);
        printf(": %lu requests\n", one.requests);
    }
    return sum;
}

int main(int argc, char **argv)
{
    int is_apart = argc == 7 && strcmp(argv[6], "apart") == 0;
    int is_across = argc == 7 && strcmp(argv[6], "across") == 0;
    long port = argc == 7 ? strtol(argv[1], NULL, 10) : 0;
    long count = argc == 7 ? strtol(argv[2], NULL, 10) : 0;
    long milliseconds = argc == 7 ? strtol(argv[3], NULL, 10) : 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        fail("sched_getaffinity");
    int processes = CPU_COUNT(&allowed);
    if ((!is_apart && !is_across) || port < 1 || port > 65535 || milliseconds < 1 || count < processes ||
        count > CONNECTIONS_MAX)
        refuse("usage: asker PORT CONNECTIONS MILLISECONDS REQUEST ANSWER apart|across");
    read_bytes(argv[4], &request);
    read_bytes(argv[5], &answer);
    find_date();

    /* Connecting and settling count, since the server's time for them counts too. */
    double started = now(), ends = started + (double)milliseconds / 1000.0;
    connect_all((unsigned short)port, count);
    unsigned long requests = ask_until(now() + SETTLING_SECONDS, connections, count).requests;
    find_processors(connections, count);
    if (is_apart)
        qsort(connections, (size_t)count, sizeof *connections, by_processor);

    int results[2];
    if (pipe(results) < 0)
        fail("pipe");
    for (int place = 0; place < processes; place++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            stay_on(&allowed, place);
            long from = count * place / processes, to = count * (place + 1) / processes;
            run_share(ends, connections + from, to - from, results[1]);
        }
    }
    struct result sum = gather(results[0], processes);
    requests += sum.requests;
    printf("%lu requests in %.6f s, %lu bytes received\n", requests, sum.ended - started,
           requests * answer.count);
    return 0;
}
