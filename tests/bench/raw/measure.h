/* What the two comparison programs share: the two kinds of media, the memory they
 * move, pacing, processor time, and the result they print. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>

/* Messages before the measured span: connection, socket buffers and page tables
 * are warm after them. */
#define WARM 32

/* 1080p50 v210: the grain header (MXL format reference §4.2) and 1080 lines of
 * 5120 bytes, in a ring of 200 ms. */
#define GRAIN_HEADER 8192
#define GRAIN_BYTES (GRAIN_HEADER + 1080 * 5120)
#define GRAIN_SLOTS 10
#define GRAIN_NS 20000000ull

/* 16 channels of float samples at 48 kHz: commits of 1 ms, entries of 10 ms with a
 * header of 16 bytes, as many as a flow with 200 ms has (MXL Fabrics reference
 * §7.1). */
#define CHANNELS 16
#define WORD 4
#define COMMIT_SAMPLES 48
#define COMMIT_NS 1000000ull
#define ENTRY_SAMPLES 480
#define ENTRY_HEADER 16
#define ENTRY_BYTES (ENTRY_HEADER + ENTRY_SAMPLES * CHANNELS * WORD)
#define ENTRIES 41

/* An audio lane's pass and the least time from a completed transfer to the next
 * (contract, "Audio timing"). */
#define PASS_NS 2000000ull

enum mode {
	FLAT,    /* as fast as it goes */
	PACED,   /* one message when its index is due */
	CADENCE, /* audio: what is due, in transfers spaced as a lane spaces them */
	FLAT_CADENCE, /* audio: full entries spaced so */
};

struct plan {
	int receive, audio;
	enum mode mode;
	uint64_t span_ns;
	int depth; /* messages in flight */
	const char *port;
};

/* The header every message starts with: that of an audio entry, and the first
 * bytes of a grain's. It is all that a sender writes. */
struct header {
	uint64_t index, count;
};

#define LAST_INDEX UINT64_MAX /* ends a run */

struct result {
	uint64_t elapsed_ns, cpu_ns, messages, bytes;
	uint64_t began_ns, began_cpu_ns;
	uint64_t *stamps; /* pairs: index, CLOCK_TAI nanoseconds */
	uint64_t stamped, room;
};

void fail(const char *what, const char *why);
struct plan read_plan(int argc, char **argv);
uint64_t message_bytes(const struct plan *p, const struct header *h);
void *shared_memory(uint64_t len, int fill);
uint64_t tai(void);
void sleep_until(uint64_t tai_ns);
void begin(struct result *r);
void finish(struct result *r);
void stamp(struct result *r, uint64_t index, uint64_t ns);
void print_result(const struct result *r);

/* Decides when a sender's next message is due. */
struct pace {
	const struct plan *plan;
	uint64_t end_ns, step_ns, next, posted_ns, completed_ns;
	uint64_t sent;
};

void pace_begin(struct pace *p, const struct plan *plan);
int pace_next(struct pace *p, struct header *h, struct result *r);

#endif
