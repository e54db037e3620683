/* A load generator that needs less CPU time for a request than a server, so several server threads are busy.
 *
 * It sends the same request again and again with send and recv only: it goes through its connections, receives the
 * response of each that has one, and sends the next request. There is no epoll and no parsing, and it reads the clock
 * once per pass. It never sleeps, so no server pays for waking it up, however much or little it has to do.
 *
 * Every response must equal the given one, byte for byte except for the value of its Date header. With `-` in place of a
 * response, responses may differ: each needs the status 200 and a Content-Length, and nothing may follow its content. The
 * first wrong response, or a closed connection, ends the run with a failure and without a result.
 *
 * One process runs on each processor that it may use. `across` lets each process load all threads of the server;
 * `apart` distributes connections by the processor that serves them, so each thread is loaded by as few processes as
 * possible. Over loopback that matters: the memory of a request belongs to the generator, which is not so for a client
 * on a network, and two threads that are loaded by one process share its bookkeeping.
 *
 * With a RATE, all processes together send this number of requests per second, independent of the responses. A request
 * waits for an idle connection if there is none. Its latency counts from the time for which it was scheduled.
 *
 * It connects to 127.0.0.1 only.
 *
 *     cc -O2 -o loadgen bench/loadgen.c
 *     taskset --cpu-list 2,3 ./loadgen PORT CONNECTIONS MILLISECONDS REQUEST RESPONSE apart|across [RATE LATENCIES]
 *
 * REQUEST and RESPONSE are files with the bytes of one of each (RESPONSE may be `-`). The nanoseconds of each request are appended to the file
 * LATENCIES, as 64-bit integers.
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
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

/* Load before the processor of each connection is determined: some tens of responses each. */
static const double SETTLING_SECONDS = 0.02;

/* Limit for the last responses. */
static const double TIMEOUT_SECONDS = 5.0;

struct bytes {
    char at[BYTES_MAX];
    size_t count;
};

struct connection {
    int socket;
    /* The processor of the thread that served it last. */
    int processor;
    /* Received bytes of the response in flight. */
    size_t received;
    /* Those bytes, for responses that differ. */
    char *kept;
    int is_waiting;
    /* The time for which the request in flight was scheduled, at a constant rate. */
    double scheduled;
};

/* The result that a process sends to the first one. */
struct result {
    unsigned long requests;
    double ended;
    /* The number of its connections that each processor served at the end. */
    int served_by[PROCESSORS_MAX];
};

static struct bytes request, response;
static int responses_differ;
/* The position of the response's date, whose value changes. */
static size_t date_begin, date_end;
static struct connection connections[CONNECTIONS_MAX];

/* Latencies of some seconds, so a process rarely writes during the run. */
static char latency_buffer[8 * 1024 * 1024];

static void fail(const char *what)
{
    fprintf(stderr, "loadgen: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *why)
{
    fprintf(stderr, "loadgen: %s\n", why);
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
    /* The buffer of a response has room for one byte more, to detect a response that is too long. */
    if (into->count == 0 || into->count == BYTES_MAX)
        refuse("the request or the response is empty or too long");
}

static void find_date(void)
{
    static const char FIELD[] = "\r\ndate: ";
    size_t name = sizeof FIELD - 1;
    for (size_t at = 0; at + name + DATE_BYTES <= response.count; at++) {
        if (strncasecmp(response.at + at, FIELD, name) == 0) {
            date_begin = at + name;
            date_end = date_begin + DATE_BYTES;
            return;
        }
    }
}

/* Returns 1 if these are the bytes of the response between two positions, except for its date. */
static int are_expected(const char *got, size_t from, size_t to)
{
    size_t before = to < date_begin ? to : date_begin;
    if (from < before && memcmp(got, response.at + from, before - from) != 0)
        return 0;
    size_t after = from > date_end ? from : date_end;
    return after >= to || memcmp(got + (after - from), response.at + after, to - after) == 0;
}

/* Returns the length of a response that begins with these bytes, or 0 if its head isn't complete. */
static size_t whole_length(const char *got, size_t count)
{
    static const char STATUS[] = "HTTP/1.1 200 ", FIELD[] = "\r\ncontent-length: ", END[] = "\r\n\r\n";
    const char *end = memmem(got, count, END, sizeof END - 1);
    if (!end)
        return 0;
    if (strncmp(got, STATUS, sizeof STATUS - 1) != 0)
        refuse("a response has another status");
    for (const char *at = got; at < end; at = memchr(at + 1, '\r', (size_t)(end - at)))
        if (strncasecmp(at, FIELD, sizeof FIELD - 1) == 0) {
            size_t content = strtoul(at + sizeof FIELD - 1, NULL, 10);
            return content > BYTES_MAX ? BYTES_MAX : (size_t)(end - got) + sizeof END - 1 + content;
        }
    refuse("a response has no Content-Length");
    return 0;
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
        if (responses_differ && !(connections[number].kept = malloc(BYTES_MAX)))
            fail("memory for a response");
    }
}

static void send_request(struct connection *connection)
{
    ssize_t sent = send(connection->socket, request.at, request.count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        fail("send");
    /* A connection has one request in flight, which is smaller than any buffer. */
    if ((size_t)sent != request.count)
        refuse("the kernel accepted only a part of a request");
    connection->is_waiting = 1;
}

/* Receives a part of a response. Returns 1 if the response is complete. */
static int receive(struct connection *connection)
{
    char part[BYTES_MAX];
    size_t from = connection->received;
    char *got = responses_differ ? connection->kept + from : part;
    size_t room = (responses_differ ? BYTES_MAX : response.count + 1) - from;
    ssize_t count = recv(connection->socket, got, room, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN)
        return 0;
    if (count < 0)
        fail("recv");
    if (count == 0)
        refuse("the server closed a connection");
    size_t to = from + (size_t)count;
    size_t whole = response.count;
    if (responses_differ) {
        whole = whole_length(connection->kept, to);
        if (whole >= BYTES_MAX || to == BYTES_MAX)
            refuse("a response is too long");
        if (whole > 0 && to > whole)
            refuse("a response is longer than its Content-Length");
    } else if (to > response.count || !are_expected(got, from, to)) {
        refuse("a response differs from the given one");
    }
    connection->is_waiting = to < whole || whole == 0;
    connection->received = connection->is_waiting ? to : 0;
    return !connection->is_waiting;
}

/* Sends requests on some connections until the time is over, and then receives the last responses. */
static struct result run_until(double ends, struct connection *from, long count)
{
    struct result result = { .requests = 0 };
    double time = now();
    long waiting = 0;
    for (; waiting < count; waiting++)
        send_request(&from[waiting]);
    while (waiting > 0) {
        if (time > ends + TIMEOUT_SECONDS)
            refuse("a response is missing");
        for (struct connection *connection = from; connection < from + count; connection++) {
            if (!connection->is_waiting || !receive(connection))
                continue;
            result.requests++;
            if (time < ends)
                send_request(connection);
            else
                waiting--;
        }
        time = now();
    }
    result.ended = time;
    return result;
}

/* Returns the next connection without a request in flight, in turn, or NULL if there is none. */
static struct connection *next_idle(struct connection *from, long count, long *next)
{
    for (long tried = 0; tried < count; tried++) {
        struct connection *connection = &from[*next];
        *next = (*next + 1) % count;
        if (!connection->is_waiting)
            return connection;
    }
    return NULL;
}

/* Sends requests at a constant rate for some time, and then receives the last responses. The time begins here: a process
 * that starts late must not send fewer. */
static struct result run_at_rate(double interval, double seconds, struct connection *from, long count, FILE *latencies)
{
    struct result result = { .requests = 0 };
    double started = now(), ends = started + seconds, time = started, scheduled = started;
    struct connection *idle;
    unsigned long sent = 0;
    long next = 0;
    while (scheduled < ends || result.requests < sent) {
        if (time > ends + TIMEOUT_SECONDS)
            refuse("the server doesn't keep up with the rate");
        while (scheduled <= time && scheduled < ends && (idle = next_idle(from, count, &next))) {
            idle->scheduled = scheduled;
            send_request(idle);
            scheduled = started + (double)++sent * interval;
        }
        for (struct connection *connection = from; connection < from + count; connection++) {
            if (!connection->is_waiting || !receive(connection))
                continue;
            result.requests++;
            uint64_t nanoseconds = (uint64_t)((now() - connection->scheduled) * 1e9);
            if (fwrite(&nanoseconds, sizeof nanoseconds, 1, latencies) != 1)
                fail("latencies");
        }
        time = now();
    }
    if (fflush(latencies) != 0)
        fail("latencies");
    result.ended = time;
    return result;
}

/* Over loopback the sender's processor does the kernel's work for the receiver, and a socket remembers the last one. */
static void find_processors(struct connection *from, long count)
{
    for (struct connection *connection = from; connection < from + count; connection++) {
        socklen_t size = sizeof connection->processor;
        if (getsockopt(connection->socket, SOL_SOCKET, SO_INCOMING_CPU, &connection->processor, &size) < 0)
            fail("SO_INCOMING_CPU");
        if (connection->processor < 0 || connection->processor >= PROCESSORS_MAX)
            refuse("too many processors");
    }
}

static int by_processor(const void *one, const void *other)
{
    return ((const struct connection *)one)->processor - ((const struct connection *)other)->processor;
}

/* Runs this process on one of the allowed processors. */
static void pin_to(const cpu_set_t *allowed, int place)
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

/* One process: sends requests on its connections, at a rate if there is an interval, sends its result, and exits. */
static void run_process(double ends, double seconds, double interval, struct connection *from, long count,
                        FILE *latencies, int results)
{
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        fail("PR_SET_PDEATHSIG");
    struct result result =
        latencies ? run_at_rate(interval, seconds, from, count, latencies) : run_until(ends, from, count);
    find_processors(from, count);
    for (struct connection *connection = from; connection < from + count; connection++)
        result.served_by[connection->processor]++;
    if (write(results, &result, sizeof result) != sizeof result)
        fail("write");
    exit(0);
}

/* Waits for all processes and adds their results. */
static struct result collect(int results, int processes)
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
        printf("process with");
        for (int processor = 0; processor < PROCESSORS_MAX; processor++)
            if (one.served_by[processor] > 0)
                printf(" %d connections on processor %d", one.served_by[processor], processor);
        printf(": %lu requests\n", one.requests);
    }
    return sum;
}

int main(int argc, char **argv)
{
    int is_complete = argc == 7 || argc == 9;
    int is_apart = is_complete && strcmp(argv[6], "apart") == 0;
    int is_across = is_complete && strcmp(argv[6], "across") == 0;
    long port = is_complete ? strtol(argv[1], NULL, 10) : 0;
    long count = is_complete ? strtol(argv[2], NULL, 10) : 0;
    long milliseconds = is_complete ? strtol(argv[3], NULL, 10) : 0;
    double rate = argc == 9 ? strtod(argv[7], NULL) : 1.0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        fail("sched_getaffinity");
    int processes = CPU_COUNT(&allowed);
    if ((!is_apart && !is_across) || port < 1 || port > 65535 || milliseconds < 1 || count < processes ||
        count > CONNECTIONS_MAX || !(rate > 0.0))
        refuse("usage: loadgen PORT CONNECTIONS MILLISECONDS REQUEST RESPONSE apart|across [RATE LATENCIES]");
    read_bytes(argv[4], &request);
    responses_differ = strcmp(argv[5], "-") == 0;
    if (!responses_differ) {
        read_bytes(argv[5], &response);
        find_date();
    }
    FILE *latencies = argc == 9 ? fopen(argv[8], "ab") : NULL;
    if (argc == 9 && (!latencies || setvbuf(latencies, latency_buffer, _IOFBF, sizeof latency_buffer) != 0))
        fail(argv[8]);

    /* Connecting and settling count, because the server's CPU time for them counts too. */
    double seconds = (double)milliseconds / 1000.0, started = now(), ends = started + seconds;
    connect_all((unsigned short)port, count);
    unsigned long requests = 0;
    if (!latencies) {
        requests = run_until(now() + SETTLING_SECONDS, connections, count).requests;
        find_processors(connections, count);
    }
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
            pin_to(&allowed, place);
            long from = count * place / processes, to = count * (place + 1) / processes;
            run_process(ends, seconds, processes / rate, connections + from, to - from, latencies, results[1]);
        }
    }
    struct result sum = collect(results[0], processes);
    requests += sum.requests;
    printf("requests: %lu\nseconds: %.6f\n", requests, sum.ended - started);
    return 0;
}
