#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

/* recv|send video|audio flat|paced|cadence|flat-cadence SECONDS DEPTH [PORT] */
struct plan read_plan(int argc, char **argv)
{
	struct plan p;

	if (argc < 6)
		fail("usage", "recv|send video|audio flat|paced|cadence|flat-cadence SECONDS DEPTH [PORT]");
	p.receive = !strcmp(argv[1], "recv");
	p.audio = !strcmp(argv[2], "audio");
	p.mode = !strcmp(argv[3], "flat") ? FLAT : !strcmp(argv[3], "paced") ? PACED :
		 !strcmp(argv[3], "cadence") ? CADENCE : FLAT_CADENCE;
	p.span_ns = (uint64_t)(atof(argv[4]) * 1e9);
	p.depth = atoi(argv[5]);
	p.port = argc > 6 ? argv[6] : "0";
	if (p.depth < 1 || p.depth > GRAIN_SLOTS)
		fail("depth", argv[5]);
	return p;
}

uint64_t message_bytes(const struct plan *p, const struct header *h)
{
	return p->audio ? ENTRY_HEADER + h->count * CHANNELS * WORD : GRAIN_BYTES;
}

/* Pages of a shared mapping, as a flow's are, all of them present. */
void *shared_memory(uint64_t len, int fill)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		fail("mmap", strerror(errno));
	memset(m, fill, len);
	return m;
}

uint64_t tai(void)
{
	struct timespec t;

	clock_gettime(CLOCK_TAI, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static uint64_t processor_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

void begin(struct result *r)
{
	r->messages = r->bytes = 0;
	r->began_cpu_ns = processor_time();
	r->began_ns = tai();
}

void finish(struct result *r)
{
	r->elapsed_ns = tai() - r->began_ns;
	r->cpu_ns = processor_time() - r->began_cpu_ns;
}

void stamp(struct result *r, uint64_t index, uint64_t ns)
{
	if (r->stamped == r->room) {
		r->room = r->room ? 2 * r->room : 16384;
		r->stamps = realloc(r->stamps, r->room * 2 * sizeof(*r->stamps));
		if (!r->stamps)
			fail("stamps", "no memory");
	}
	r->stamps[2 * r->stamped] = index;
	r->stamps[2 * r->stamped++ + 1] = ns;
}

void print_result(const struct result *r)
{
	printf("{\"elapsed_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64
	       ",\"stamps\":[",
	       r->elapsed_ns, r->cpu_ns, r->messages, r->bytes);
	for (uint64_t i = 0; i < 2 * r->stamped; i++)
		printf("%s%" PRIu64, i ? "," : "", r->stamps[i]);
	printf("]}\n");
	fflush(stdout);
}

void pace_begin(struct pace *p, const struct plan *plan)
{
	uint64_t now = tai();

	memset(p, 0, sizeof(*p));
	p->plan = plan;
	p->step_ns = plan->audio ? COMMIT_NS : GRAIN_NS;
	p->next = now / p->step_ns + 2;
	p->posted_ns = p->completed_ns = now;
	p->end_ns = now + plan->span_ns;
}

/* When a lane posts its next batch (fabrics, nextSamplePost): a pass after the pass
 * that saw the last one complete. */
static uint64_t next_post(const struct pace *p)
{
	uint64_t took = p->completed_ns - p->posted_ns;
	uint64_t passes = took ? (took + PASS_NS - 1) / PASS_NS : 1;

	return p->posted_ns + passes * PASS_NS + PASS_NS;
}

/* Waits until the next message is due and stamps what it makes available. */
int pace_next(struct pace *p, struct header *h, struct result *r)
{
	const struct plan *plan = p->plan;
	uint64_t samples = plan->audio ? COMMIT_SAMPLES : 1;
	uint64_t due, steps = 1;

	switch (plan->mode) {
	case FLAT_CADENCE:
		sleep_until(next_post(p));
		/* fall through */
	case FLAT:
		if (tai() >= p->end_ns)
			return 0;
		h->count = plan->audio ? ENTRY_SAMPLES : 1;
		h->index = ++p->sent * h->count;
		return 1;
	case PACED:
		due = p->next * p->step_ns;
		if (due >= p->end_ns)
			return 0;
		sleep_until(due);
		stamp(r, p->next * samples, tai());
		break;
	case CADENCE:
		due = next_post(p);
		if (due < p->next * p->step_ns)
			due = p->next * p->step_ns;
		if (due >= p->end_ns)
			return 0;
		sleep_until(due);
		steps = tai() / p->step_ns + 1 - p->next;
		if (steps > ENTRY_SAMPLES / COMMIT_SAMPLES)
			steps = ENTRY_SAMPLES / COMMIT_SAMPLES;
		/* There is no writer beside this thread: a commit is as old as its index. */
		for (uint64_t i = 0; i < steps; i++)
			stamp(r, (p->next + i) * samples, (p->next + i) * p->step_ns);
		break;
	}
	p->next += steps;
	p->sent++;
	h->index = (p->next - 1) * samples;
	h->count = steps * samples;
	return 1;
}
