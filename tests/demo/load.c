/* SPDX-License-Identifier: MIT */
/*
 * The client of `make demo`: fills a redis-server, deletes nine in ten of the values, stays silent, fills it again,
 * and watches the server's memory from /proc all the while.
 *
 * The work is a function of the seed and the amount alone, so every allocator meets the same commands in the same order.
 * Value i is a window of one block of noise, so every surviving value can be compared byte for byte at the end.
 *
 * Two threads. The main thread talks to the server and takes the readings that belong to an instant ("marks"): it is idle
 * when they are due, so they are not late. The sampler thread reads /proc every 10 ms and draws the progress line. They share
 * atomics only; the sample array is the sampler's until it has been joined.
 *
 * Result: lines "key<TAB>value" on stdout, samples in the file named by -o. Messages and progress on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)
#define NS_PER_S 1000000000LL
#define SAMPLE_NS (NS_PER_S / 100)
#define SAMPLES_MAX (300 * 100)     /* five minutes: the whole demo has three */
#define NOISE_BYTES (1024u * 1024u) /* four times the largest value, so windows differ */
#define VALUE_MIN_BYTES 16u
#define VALUE_OCTAVES 12u /* 16 B << 12 = 64 KiB */
#define VALUE_BIG_BYTES (256u * 1024u)
#define VALUE_BIG_ONE_IN 1024u     /* some 50 of 50 000 values: "a few" */
#define KEY_ROOM 24                /* "value:" and any 32-bit number */
#define BATCH_COMMANDS 128u        /* commands or bytes sent before replies are read: keeps the server busy, ... */
#define BATCH_BYTES (256u * 1024u) /* ... and at most two such batches are under way */
#define REPLY_TIMEOUT_S 30         /* far above any pause seen; a hung server ends the run with a message */
#define QUIET_NS (NS_PER_S / 2)    /* shown before the first load and after the second one */

struct item {
	uint32_t bytes;
	uint32_t offset; /* into the noise */
	bool live;       /* main thread */
};

struct sample {
	int64_t time_ns;
	int phase;
	uint64_t rss_bytes;
	uint64_t anon_bytes;
	uint64_t live_bytes;
	uint64_t minor_faults;
};

/* What the kernel says about the server at one instant. */
struct mark {
	int64_t time_ns;
	uint64_t rss_bytes; /* smaps_rollup: counted from the page tables, no per-CPU error */
	uint64_t anon_bytes;
	uint64_t lazyfree_bytes;
	uint64_t huge_bytes;
	uint64_t minor_faults;
	uint64_t cpu_ms;
};

enum phase { PHASE_START, PHASE_LOAD, PHASE_DELETE, PHASE_WAIT, PHASE_RELOAD, PHASE_END, PHASE_CHECK };

static const char *const phase_names[] = {
	[PHASE_START] = "start",
	[PHASE_LOAD] = "first load",
	[PHASE_DELETE] = "delete",
	[PHASE_WAIT] = "wait",
	[PHASE_RELOAD] = "second load",
	[PHASE_END] = "end",
	[PHASE_CHECK] = "check",
};

struct demo {
	/* Constant once the work begins. */
	const char *samples_path;
	int port;
	pid_t pid;
	uint64_t seed;
	uint64_t amount_bytes;
	unsigned wait_s;
	bool tty;
	int statm_fd;
	int stat_fd;
	char *noise;

	/* Main thread. */
	redisContext *redis;
	uint64_t rng;
	struct item *items;
	uint32_t item_count;
	uint32_t item_room;

	/* Written by one thread, read by the other; each is a lone number, so relaxed order is enough. */
	atomic_int phase;
	atomic_uint_fast64_t live_bytes;
	atomic_uint_fast64_t done_count;
	atomic_uint_fast64_t due_count;
	atomic_bool stop;

	/* Sampler thread, then the main thread after the join. */
	struct sample *samples;
	uint32_t sample_count;
};

/* One kind of command: how to queue it for an item, and what its reply must be. */
struct command {
	void (*append)(struct demo *d, uint32_t id);
	bool (*accept)(struct demo *d, uint32_t id, const redisReply *reply);
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("demo: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static void *xrealloc(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	if (!p)
		die("the load client is out of memory");
	return p;
}

/* ---- time, random numbers ---- */

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void sleep_until(int64_t time_ns)
{
	struct timespec ts = {.tv_sec = time_ns / NS_PER_S, .tv_nsec = time_ns % NS_PER_S};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static double seconds(int64_t ns)
{
	return (double)ns / NS_PER_S;
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed is a good seed, and the sequence is the same everywhere. */
static uint64_t rng_next(struct demo *d)
{
	uint64_t z = d->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint32_t rng_below(struct demo *d, uint32_t limit)
{
	return (uint32_t)(((rng_next(d) >> 32) * limit) >> 32);
}

/* ---- the values ---- */

/* Every doubling from 16 B to 64 KiB is as likely as the next, every size within it too; now and then 256 KiB. */
static uint32_t value_bytes(struct demo *d)
{
	uint32_t low = VALUE_MIN_BYTES << rng_below(d, VALUE_OCTAVES);
	uint32_t bytes = low + rng_below(d, low);

	return rng_below(d, VALUE_BIG_ONE_IN) ? bytes : VALUE_BIG_BYTES;
}

static void noise_fill(struct demo *d)
{
	d->noise = xrealloc(NULL, NOISE_BYTES);
	for (size_t i = 0; i < NOISE_BYTES; i += sizeof(uint64_t)) {
		uint64_t word = rng_next(d);
		memcpy(d->noise + i, &word, sizeof(word));
	}
}

static void item_add(struct demo *d)
{
	struct item *item;

	if (d->item_count == d->item_room) {
		d->item_room = d->item_room ? 2 * d->item_room : 65536;
		d->items = xrealloc(d->items, d->item_room * sizeof(*d->items));
	}
	item = &d->items[d->item_count++];
	item->bytes = value_bytes(d);
	item->offset = rng_below(d, NOISE_BYTES - item->bytes);
	item->live = false;
}

/* New items until, with LIVE bytes already there, the server will hold the whole amount. Returns the first one's id. */
static uint32_t items_add(struct demo *d, uint64_t live)
{
	uint32_t first = d->item_count;

	while (live < d->amount_bytes) {
		item_add(d);
		live += d->items[d->item_count - 1].bytes;
	}
	return first;
}

static uint32_t *ids_from(uint32_t first, uint32_t count)
{
	uint32_t *ids = xrealloc(NULL, (count + 1) * sizeof(*ids));

	for (uint32_t i = 0; i < count; i++)
		ids[i] = first + i;
	return ids;
}

static void ids_shuffle(struct demo *d, uint32_t *ids, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = rng_below(d, i);
		uint32_t id = ids[j];

		ids[j] = ids[i - 1];
		ids[i - 1] = id;
	}
}

/* ---- what the kernel says about the server ---- */

/* The whole file into BUF. A read of nothing means that the server is gone. */
static void proc_read(struct demo *d, int fd, const char *file, char *buf, size_t room)
{
	ssize_t got = pread(fd, buf, room - 1, 0);

	if (got <= 0)
		die("/proc/%d/%s: %s", (int)d->pid, file, got ? strerror(errno) : "the server is gone");
	buf[got] = '\0';
}

static int proc_open(struct demo *d, const char *file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)d->pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static void statm_read(struct demo *d, uint64_t *ret_rss_bytes, uint64_t *ret_anon_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t resident, shared;
	char buf[256];

	proc_read(d, d->statm_fd, "statm", buf, sizeof(buf));
	if (sscanf(buf, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2)
		die("/proc/%d/statm: not understood: %s", (int)d->pid, buf);
	*ret_rss_bytes = resident * page;
	*ret_anon_bytes = (resident - shared) * page;
}

static void stat_read(struct demo *d, uint64_t *ret_minor_faults, uint64_t *ret_cpu_ms)
{
	uint64_t minor, user, system;
	const char *rest;
	char buf[1024];

	proc_read(d, d->stat_fd, "stat", buf, sizeof(buf));
	rest = strrchr(buf, ')'); /* the name may hold anything, a ')' too */
	if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %" SCNu64 " %" SCNu64, &minor, &user, &system) != 3)
		die("/proc/%d/stat: not understood: %s", (int)d->pid, buf);
	*ret_minor_faults = minor;
	*ret_cpu_ms = (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static uint64_t rollup_field(const char *text, const char *field)
{
	const char *at = strstr(text, field);

	return at ? strtoull(at + strlen(field), NULL, 10) * 1024 : 0;
}

/* Opened anew each time: seq files restart cleanly that way, and a mark is rare. */
static void rollup_read(struct demo *d, struct mark *mark)
{
	char buf[4096];
	int fd = proc_open(d, "smaps_rollup");

	proc_read(d, fd, "smaps_rollup", buf, sizeof(buf));
	close(fd);
	mark->rss_bytes = rollup_field(buf, "\nRss:");
	mark->anon_bytes = rollup_field(buf, "\nAnonymous:");
	mark->lazyfree_bytes = rollup_field(buf, "\nLazyFree:");
	mark->huge_bytes = rollup_field(buf, "\nAnonHugePages:");
}

static struct mark mark_take(struct demo *d)
{
	struct mark mark = {.time_ns = now_ns()};

	rollup_read(d, &mark);
	stat_read(d, &mark.minor_faults, &mark.cpu_ms);
	return mark;
}

static struct mark mark_take_at(struct demo *d, int64_t time_ns)
{
	sleep_until(time_ns);
	return mark_take(d);
}

/* ---- the sampler thread ---- */

static void progress_draw(struct demo *d, const struct sample *s)
{
	uint64_t done = atomic_load_explicit(&d->done_count, memory_order_relaxed);
	uint64_t due = atomic_load_explicit(&d->due_count, memory_order_relaxed);

	fprintf(stderr, "\r  %-12s", phase_names[s->phase]);
	if (due)
		fprintf(stderr, "%3.0f %%   ", 100.0 * (double)done / (double)due);
	fprintf(stderr, "live %.0f MiB   RSS %.0f MiB\033[K", (double)s->live_bytes / MIB, (double)s->rss_bytes / MIB);
}

static void progress_clear(struct demo *d)
{
	if (d->tty)
		fputs("\r\033[K", stderr);
}

static struct sample *sample_take(struct demo *d)
{
	struct sample *s = &d->samples[d->sample_count++];
	uint64_t cpu_ms;

	s->time_ns = now_ns();
	s->phase = atomic_load_explicit(&d->phase, memory_order_relaxed);
	s->live_bytes = atomic_load_explicit(&d->live_bytes, memory_order_relaxed);
	statm_read(d, &s->rss_bytes, &s->anon_bytes);
	stat_read(d, &s->minor_faults, &cpu_ms);
	return s;
}

static void *sampler_run(void *arg)
{
	struct demo *d = arg;
	int64_t due = now_ns();

	while (!atomic_load_explicit(&d->stop, memory_order_relaxed) && d->sample_count < SAMPLES_MAX) {
		const struct sample *s = sample_take(d);

		if (d->tty && d->sample_count % 20 == 0) /* five times a second can be read */
			progress_draw(d, s);
		do
			due += SAMPLE_NS;
		while (due < now_ns());
		sleep_until(due);
	}
	return NULL;
}

/* ---- talking to the server ---- */

static void redis_open(struct demo *d)
{
	struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_S};

	d->redis = redisConnect("127.0.0.1", d->port);
	if (!d->redis || d->redis->err)
		die("127.0.0.1:%d: %s", d->port, d->redis ? d->redis->errstr : "out of memory");
	redisSetTimeout(d->redis, timeout);
}

static redisReply *reply_next(struct demo *d)
{
	void *reply;

	if (redisGetReply(d->redis, &reply) != REDIS_OK)
		die("the server went away during \"%s\": %s", phase_names[d->phase], d->redis->errstr);
	return reply;
}

static void send_queued(struct demo *d)
{
	int done = 0;

	while (!done)
		if (redisBufferWrite(d->redis, &done) != REDIS_OK)
			die("the server went away during \"%s\": %s", phase_names[d->phase], d->redis->errstr);
}

static void replies_accept(struct demo *d, const struct command *command, const uint32_t *ids, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		redisReply *reply = reply_next(d);

		if (!command->accept(d, ids[i], reply))
			die("wrong reply for value %u during \"%s\": %.60s", ids[i], phase_names[d->phase], reply->str ? reply->str : "not the value");
		freeReplyObject(reply);
		atomic_fetch_add_explicit(&d->done_count, 1, memory_order_relaxed);
	}
}

static uint32_t batch_append(struct demo *d, const struct command *command, const uint32_t *ids, uint32_t first, uint32_t count)
{
	uint64_t bytes = 0;
	uint32_t i = first;

	while (i < count && i - first < BATCH_COMMANDS && bytes < BATCH_BYTES) {
		command->append(d, ids[i]);
		bytes += d->items[ids[i]].bytes;
		i++;
	}
	return i;
}

/* Always one batch ahead of the replies being read, so that neither side waits for the other. */
static void pipeline(struct demo *d, enum phase phase, const struct command *command, const uint32_t *ids, uint32_t count)
{
	uint32_t answered = 0, sent = 0;

	atomic_store_explicit(&d->done_count, 0, memory_order_relaxed);
	atomic_store_explicit(&d->due_count, count, memory_order_relaxed);
	atomic_store_explicit(&d->phase, phase, memory_order_relaxed);
	while (answered < count) {
		uint32_t before = sent;

		sent = batch_append(d, command, ids, sent, count);
		send_queued(d);
		if (sent == before) /* nothing left to send: read the last batch */
			before = count;
		replies_accept(d, command, ids, answered, before);
		answered = before;
	}
}

static void append(struct demo *d, int argc, const char **argv, const size_t *lengths)
{
	if (redisAppendCommandArgv(d->redis, argc, argv, lengths) != REDIS_OK)
		die("the load client is out of memory");
}

/* Returns the length. */
static size_t key_format(uint32_t id, char ret_key[KEY_ROOM])
{
	return (size_t)snprintf(ret_key, KEY_ROOM, "value:%07u", id);
}

static void append_key_command(struct demo *d, const char *verb, uint32_t id)
{
	char key[KEY_ROOM];
	size_t key_length = key_format(id, key);

	append(d, 2, (const char *[]){verb, key}, (size_t[]){strlen(verb), key_length});
}

static void append_set(struct demo *d, uint32_t id)
{
	const struct item *item = &d->items[id];
	char key[KEY_ROOM];
	size_t key_length = key_format(id, key);

	append(d, 3, (const char *[]){"SET", key, d->noise + item->offset}, (size_t[]){3, key_length, item->bytes});
}

static bool accept_set(struct demo *d, uint32_t id, const redisReply *reply)
{
	d->items[id].live = true;
	atomic_fetch_add_explicit(&d->live_bytes, d->items[id].bytes, memory_order_relaxed);
	return reply->type == REDIS_REPLY_STATUS;
}

static void append_del(struct demo *d, uint32_t id)
{
	append_key_command(d, "DEL", id);
}

static bool accept_del(struct demo *d, uint32_t id, const redisReply *reply)
{
	d->items[id].live = false;
	atomic_fetch_sub_explicit(&d->live_bytes, d->items[id].bytes, memory_order_relaxed);
	return reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
}

static void append_get(struct demo *d, uint32_t id)
{
	append_key_command(d, "GET", id);
}

static bool accept_get(struct demo *d, uint32_t id, const redisReply *reply)
{
	const struct item *item = &d->items[id];

	return reply->type == REDIS_REPLY_STRING && (size_t)reply->len == item->bytes &&
		!memcmp(reply->str, d->noise + item->offset, item->bytes);
}

static const struct command command_set = {append_set, accept_set};
static const struct command command_del = {append_del, accept_del};
static const struct command command_get = {append_get, accept_get};

/* One number of one INFO section, 0 when the server does not print it. */
static uint64_t info_number(struct demo *d, const char *section, const char *field)
{
	redisReply *reply = redisCommand(d->redis, "INFO %s", section);
	char wanted[64];
	const char *at;
	uint64_t value;

	if (!reply || reply->type != REDIS_REPLY_STRING)
		die("INFO %s: %s", section, reply ? "wrong reply" : d->redis->errstr);
	snprintf(wanted, sizeof(wanted), "\n%s:", field);
	at = strstr(reply->str, wanted);
	value = at ? strtoull(at + strlen(wanted), NULL, 10) : 0;
	freeReplyObject(reply);
	return value;
}

/* Another server on this port must not lose its data to us. */
static void check_identity(struct demo *d)
{
	uint64_t pid = info_number(d, "server", "process_id");

	if (pid != (uint64_t)d->pid)
		die("127.0.0.1:%d is served by process %" PRIu64 ", not by %d", d->port, pid, (int)d->pid);
}

/* ---- the result ---- */

static void print_number(const char *key, uint64_t value)
{
	printf("%s\t%" PRIu64 "\n", key, value);
}

static void print_mark(const char *when, const struct mark *mark)
{
	printf("rss_%s_bytes\t%" PRIu64 "\n", when, mark->rss_bytes);
	printf("anon_%s_bytes\t%" PRIu64 "\n", when, mark->anon_bytes);
	printf("lazyfree_%s_bytes\t%" PRIu64 "\n", when, mark->lazyfree_bytes);
	printf("huge_%s_bytes\t%" PRIu64 "\n", when, mark->huge_bytes);
}

/* One stretch of work between two marks: how long, how fast, what it cost the server. */
struct work {
	uint64_t bytes;
	uint64_t count;
	struct mark before;
	struct mark after;
};

static uint64_t per_second(const struct work *work, uint64_t amount)
{
	return (uint64_t)((double)amount / seconds(work->after.time_ns - work->before.time_ns));
}

static void print_work(const char *what, const struct work *work)
{
	printf("%s_ns\t%" PRId64 "\n", what, work->after.time_ns - work->before.time_ns);
	printf("%s_commands\t%" PRIu64 "\n", what, work->count);
	printf("%s_bytes\t%" PRIu64 "\n", what, work->bytes);
	printf("%s_bytes_per_s\t%" PRIu64 "\n", what, per_second(work, work->bytes));
	printf("%s_commands_per_s\t%" PRIu64 "\n", what, per_second(work, work->count));
	printf("%s_minor_faults\t%" PRIu64 "\n", what, work->after.minor_faults - work->before.minor_faults);
	printf("%s_server_cpu_ms\t%" PRIu64 "\n", what, work->after.cpu_ms - work->before.cpu_ms);
}

static uint64_t peak_bytes(const struct demo *d, int first_phase, int last_phase)
{
	uint64_t peak = 0;

	for (uint32_t i = 0; i < d->sample_count; i++) {
		const struct sample *s = &d->samples[i];

		if (s->phase >= first_phase && s->phase <= last_phase && s->rss_bytes > peak)
			peak = s->rss_bytes;
	}
	return peak;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Times count from the last DEL reply, which is where the runs of different allocators are laid over each other. */
static void samples_write(const struct demo *d, int64_t zero_ns)
{
	FILE *file = fopen(d->samples_path, "we");

	if (!file)
		die("%s: %s", d->samples_path, strerror(errno));
	fputs("time_s\tphase\trss_bytes\tanon_bytes\tlive_bytes\tminor_faults\n", file);
	for (uint32_t i = 0; i < d->sample_count; i++) {
		const struct sample *s = &d->samples[i];

		fprintf(file, "%.4f\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", seconds(s->time_ns - zero_ns),
			phase_names[s->phase], s->rss_bytes, s->anon_bytes, s->live_bytes, s->minor_faults);
	}
	if (fclose(file))
		die("%s: %s", d->samples_path, strerror(errno));
}

/* ---- the phases ---- */

static void say(struct demo *d, enum phase phase, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(struct demo *d, enum phase phase, const char *format, ...)
{
	va_list args;

	progress_clear(d);
	fprintf(stderr, "  %-12s", phase_names[phase]);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static void say_load(struct demo *d, enum phase phase, const struct work *work)
{
	say(d, phase, "%.0f MiB in %" PRIu64 " values, %.2f s, %.0f MiB/s, RSS %.0f MiB", (double)work->bytes / MIB, work->count,
		seconds(work->after.time_ns - work->before.time_ns), (double)per_second(work, work->bytes) / MIB,
		(double)work->after.rss_bytes / MIB);
}

static struct work load_phase(struct demo *d, enum phase phase)
{
	uint64_t live = atomic_load_explicit(&d->live_bytes, memory_order_relaxed);
	uint32_t first = items_add(d, live);
	struct work work = {.count = d->item_count - first};
	uint32_t *ids = ids_from(first, d->item_count - first);

	work.before = mark_take(d);
	work.before.time_ns = now_ns();
	pipeline(d, phase, &command_set, ids, d->item_count - first);
	work.after = mark_take(d);
	work.bytes = atomic_load_explicit(&d->live_bytes, memory_order_relaxed) - live;
	free(ids);
	say_load(d, phase, &work);
	return work;
}

static struct work delete_phase(struct demo *d)
{
	uint32_t *ids = ids_from(0, d->item_count);
	uint64_t live = atomic_load_explicit(&d->live_bytes, memory_order_relaxed);
	struct work work = {.count = (uint64_t)d->item_count * 9 / 10};

	ids_shuffle(d, ids, d->item_count);
	work.before = mark_take(d);
	work.before.time_ns = now_ns();
	pipeline(d, PHASE_DELETE, &command_del, ids, (uint32_t)work.count);
	atomic_store_explicit(&d->phase, PHASE_WAIT, memory_order_relaxed);
	work.after = mark_take(d);
	work.bytes = live - atomic_load_explicit(&d->live_bytes, memory_order_relaxed);
	free(ids);
	say(d, PHASE_DELETE, "%" PRIu64 " of %u values at random, %.2f s, RSS %.0f MiB", work.count, d->item_count,
		seconds(work.after.time_ns - work.before.time_ns), (double)work.after.rss_bytes / MIB);
	return work;
}

/* Nobody speaks to the server here; ZERO_NS is when its last DEL reply arrived. */
static void wait_phase(struct demo *d, int64_t zero_ns, struct mark *ret_marks)
{
	atomic_store_explicit(&d->due_count, 0, memory_order_relaxed);
	ret_marks[0] = mark_take_at(d, zero_ns + NS_PER_S / 4);
	ret_marks[1] = mark_take_at(d, zero_ns + NS_PER_S);
	ret_marks[2] = mark_take_at(d, zero_ns + d->wait_s * NS_PER_S);
	say(d, PHASE_WAIT, "RSS after 0.25 s: %.0f MiB, 1 s: %.0f MiB, %u s: %.0f MiB", (double)ret_marks[0].rss_bytes / MIB,
		(double)ret_marks[1].rss_bytes / MIB, d->wait_s, (double)ret_marks[2].rss_bytes / MIB);
}

static uint32_t check_phase(struct demo *d)
{
	uint32_t *ids = ids_from(0, d->item_count);
	uint32_t live = 0;
	redisReply *reply;

	for (uint32_t id = 0; id < d->item_count; id++)
		if (d->items[id].live)
			ids[live++] = id;
	pipeline(d, PHASE_CHECK, &command_get, ids, live);
	reply = redisCommand(d->redis, "DBSIZE");
	if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer != live)
		die("the server does not hold exactly %u values", live);
	freeReplyObject(reply);
	free(ids);
	say(d, PHASE_CHECK, "all %u values are byte for byte what was stored", live);
	return live;
}

static void sampler_stop(struct demo *d, pthread_t sampler)
{
	atomic_store_explicit(&d->stop, true, memory_order_relaxed);
	pthread_join(sampler, NULL);
	progress_clear(d);
}

static void run(struct demo *d)
{
	struct work first, del, second;
	struct mark idle[3];
	uint64_t live_after_delete, jemalloc_bytes, used_bytes;
	pthread_t sampler;

	if (pthread_create(&sampler, NULL, sampler_run, d))
		die("cannot start the sampler thread");
	sleep_until(now_ns() + QUIET_NS);
	first = load_phase(d, PHASE_LOAD);
	used_bytes = info_number(d, "memory", "used_memory");
	jemalloc_bytes = info_number(d, "memory", "allocator_allocated");
	del = delete_phase(d);
	live_after_delete = atomic_load_explicit(&d->live_bytes, memory_order_relaxed);
	wait_phase(d, del.after.time_ns, idle);
	second = load_phase(d, PHASE_RELOAD);
	atomic_store_explicit(&d->phase, PHASE_END, memory_order_relaxed);
	sleep_until(now_ns() + QUIET_NS);
	sampler_stop(d, sampler);

	print_work("first_load", &first);
	print_work("delete", &del);
	print_work("second_load", &second);
	print_number("live_peak_bytes", first.bytes);
	print_number("live_after_delete_bytes", live_after_delete);
	print_number("redis_used_memory_peak_bytes", used_bytes);
	print_number("jemalloc_allocated_peak_bytes", jemalloc_bytes);
	print_number("rss_peak_bytes", max_u64(first.after.rss_bytes, peak_bytes(d, PHASE_LOAD, PHASE_DELETE)));
	print_mark("before", &first.before);
	print_mark("first_load", &first.after);
	print_mark("delete", &del.after);
	print_mark("0_25s", &idle[0]);
	print_mark("1s", &idle[1]);
	print_mark("wait_end", &idle[2]);
	print_mark("second_load", &second.after);
	print_number("rss_second_peak_bytes", max_u64(second.after.rss_bytes, peak_bytes(d, PHASE_RELOAD, PHASE_END)));
	print_number("wait_late_0_25s_ns", (uint64_t)(idle[0].time_ns - del.after.time_ns - NS_PER_S / 4));
	print_number("checked_values", check_phase(d));
	samples_write(d, del.after.time_ns);
}

/* ---- command line ---- */

static const char usage[] = "usage: load -p PORT -P PID -o SAMPLES [-s SEED] [-m MIB] [-w SECONDS]\n"
							"\n"
							"  -p PORT     port of an empty redis-server on 127.0.0.1\n"
							"  -P PID      its process; a server that is another process is left alone\n"
							"  -o SAMPLES  file for the samples (tab-separated, one every 10 ms)\n"
							"  -s SEED     of the sizes and of what is deleted (default 1)\n"
							"  -m MIB      bytes of values at the peak, 1 to 4096 (default 400)\n"
							"  -w SECONDS  silence after the delete, 2 to 60 (default 10)\n";

static uint64_t parse_number(char option, const char *text, uint64_t low, uint64_t high)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < low || value > high)
		die("-%c %s: not a number from %" PRIu64 " to %" PRIu64, option, text, low, high);
	return value;
}

static void parse_options(struct demo *d, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "hp:P:o:s:m:w:")) != -1) {
		switch (option) {
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case 'o':
			d->samples_path = optarg;
			break;
		case 'p':
			d->port = (int)parse_number('p', optarg, 1, 65535);
			break;
		case 'P':
			d->pid = (pid_t)parse_number('P', optarg, 1, INT32_MAX);
			break;
		case 's':
			d->seed = parse_number('s', optarg, 0, UINT64_MAX);
			break;
		case 'm':
			d->amount_bytes = parse_number('m', optarg, 1, 4096) << 20;
			break;
		case 'w':
			d->wait_s = (unsigned)parse_number('w', optarg, 2, 60);
			break;
		default:
			fputs("try load -h\n", stderr);
			exit(2);
		}
	}
	if (optind != argc)
		die("%s: not an option; try load -h", argv[optind]);
	if (!d->samples_path || !d->port || !d->pid)
		die("-p, -P and -o are needed; try load -h");
}

int main(int argc, char **argv)
{
	struct demo d = {.seed = 1, .amount_bytes = 400u << 20, .wait_s = 10, .tty = isatty(STDERR_FILENO)};

	parse_options(&d, argc, argv);
	signal(SIGPIPE, SIG_IGN); /* a server that dies shall be an error message */
	d.rng = d.seed;
	d.samples = xrealloc(NULL, SAMPLES_MAX * sizeof(*d.samples));
	noise_fill(&d);
	d.statm_fd = proc_open(&d, "statm");
	d.stat_fd = proc_open(&d, "stat");
	redis_open(&d);
	check_identity(&d);
	run(&d);
	redisFree(d.redis);
	free(d.items);
	free(d.samples);
	free(d.noise);
	if (fflush(stdout))
		die("writing the result: %s", strerror(errno));
	return 0;
}
