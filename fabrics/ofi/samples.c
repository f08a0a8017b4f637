/* A lane of samples moves a batch about every 4 ms. Each return to Go in between costs
 * more than the batch: the runtime's monitor is woken and naps until it may take the
 * lane's processor away. So what is plain goes on here, batch after batch, and whatever
 * is not is left to Go, untouched. */
#define _GNU_SOURCE
#include "samples.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mappings.h"

/* A cycle that took this long is Go's to judge (fabrics, stallFloor). */
#define SLOW 20000000

static uint64_t tai(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_TAI, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The place of the count samples before head in a channel: first bytes from offset,
 * the rest from the channel's beginning. */
struct place {
	uint64_t offset, first, rest;
};

static struct place place_of(const struct ofi_ring *r, uint64_t head, uint64_t count)
{
	uint64_t start = (head % r->length + r->length - count) % r->length;
	uint64_t first = r->length - start < count ? r->length - start : count;

	return (struct place){ start * r->word, first * r->word, (count - first) * r->word };
}

static void scatter(const struct ofi_ring *r, struct place at, const uint8_t *from)
{
	for (uint64_t c = 0; c < r->count; c++) {
		uint8_t *channel = r->channels + c * r->length * r->word;

		memcpy(channel + at.offset, from, at.first);
		memcpy(channel, from + at.first, at.rest);
		from += at.first + at.rest;
	}
}

static void gather(const struct ofi_ring *r, struct place at, uint8_t *to)
{
	for (uint64_t c = 0; c < r->count; c++) {
		const uint8_t *channel = r->channels + c * r->length * r->word;

		memcpy(to, channel + at.offset, at.first);
		memcpy(to + at.first, channel, at.rest);
		to += at.first + at.rest;
	}
}

/* How often a run notes how long its thread has waited for a processor (fabrics,
 * starvedEvery). */
#define STARVED_EVERY 100000000

/* Does so as a pass would when it begins (proc(5), schedstat). */
static void note_starved(struct ofi_run *run, int64_t now)
{
	unsigned long long starved;
	char text[96];
	ssize_t n;

	if (run->schedstat <= 0 || now - run->noted < STARVED_EVERY)
		return;
	n = pread(run->schedstat, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return;
	text[n] = 0;
	if (sscanf(text, "%*u %llu", &starved) != 1)
		return;
	run->noted = now;
	run->starved = (int64_t)starved;
}

/* Tells whether a commit of head wakes readers (mxl, wakeRule). */
static bool wakes(struct ofi_sink *s, uint64_t head)
{
	uint64_t batch = head / s->sync_batch;

	if (batch < s->woken)
		return false;
	if (batch > s->woken) {
		s->woken = batch;
		return true;
	}
	if (head % s->sync_batch <= s->early)
		return false;
	s->woken = batch + 1;
	return true;
}

/* Publishes the batch that a completion tells of where it continues what is there.
 * Everything else is false: gaps, late ones, what cannot be, files that are cut off. */
static bool commit_plain(struct ofi_sink *s, const struct fi_cq_data_entry *e, uint64_t *head, uint64_t *count)
{
	const struct ofi_ring *r = &s->ring;
	uint64_t mirror = __atomic_load_n(r->head, __ATOMIC_ACQUIRE), again[2], in[2];
	uint32_t faults = ofi_mapping_faults();
	uint8_t *entry;

	if (!(e->flags & FI_REMOTE_CQ_DATA) || (uint32_t)e->data >= s->entry_count)
		return false;
	entry = s->entries + (uint32_t)e->data * s->stride;
	memcpy(in, entry, sizeof(in));
	if (!in[1] || in[1] > r->length / 2 || in[1] > (s->entry_size - OFI_SAMPLE_HEADER) / (r->count * r->word) ||
	    mirror + in[1] != in[0] || in[0] < mirror || in[0] == UINT64_MAX)
		return false;
	scatter(r, place_of(r, in[0], in[1]), entry + OFI_SAMPLE_HEADER);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* A fabric that writes by itself does not wait for a lane that got no CPU. */
	memcpy(again, entry, sizeof(again));
	if (again[0] != in[0] || again[1] != in[1] || ofi_mapping_faults() != faults)
		return false;
	__atomic_store_n(r->head, in[0], __ATOMIC_RELEASE);
	if (wakes(s, in[0])) {
		__atomic_fetch_add(r->sync, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, r->sync, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
	*head = in[0];
	*count = in[1];
	return true;
}

/* Counts a batch that is done; only the lane's thread writes these. */
static void note(struct ofi_sample_counts *c, const struct ofi_batch *b, uint64_t at, uint64_t frame)
{
	__atomic_store_n(&c->head, b->head, __ATOMIC_RELAXED);
	__atomic_store_n(&c->batch, b->count, __ATOMIC_RELAXED);
	__atomic_store_n(&c->at, at, __ATOMIC_RELAXED);
	__atomic_store_n(&c->samples, c->samples + b->count, __ATOMIC_RELAXED);
	__atomic_store_n(&c->bytes, c->bytes + b->count * frame, __ATOMIC_RELAXED);
	__atomic_store_n(&c->batches, c->batches + 1, __ATOMIC_RELEASE);
}

/* Posts the receives again that completions used up; false when it could not. */
static bool renew(struct ofi_sink *s, int count)
{
	int posted;

	if (!s->receiver || !count)
		return true;
	posted = ofi_post_receives(s->receiver, s->receive, s->receive_len, s->receive_desc, count);
	s->unposted = count - (posted > 0 ? posted : 0);
	return !s->unposted;
}

/* Waits for batches, each time for at most wait_ns, and publishes them for about
 * run_ns, or until one is not plain, a cycle was slow or something else happened. The
 * rest is as of ofi_poll: completions that were not dealt with, and flags. now is the
 * lane's time. */
int ofi_receive_samples(struct ofi_poller *p, struct ofi_sink *s, struct ofi_sample_counts *counts,
			int64_t now, int64_t wait_ns, int64_t run_ns)
{
	int64_t lane = now - (int64_t)ofi_monotonic(), end = now + run_ns;
	uint64_t frame = s->ring.count * s->ring.word;
	struct ofi_run *run = &s->run;
	bool armed = false;

	run->count = 0;
	s->unposted = 0;
	for (;;) {
		bool renewed;
		int got, i;

		note_starved(run, now);
		run->began = now;
		run->allowed = wait_ns;
		got = ofi_poll_armed(p, wait_ns, &armed);
		run->woke = now = lane + (int64_t)ofi_monotonic();
		if (got <= 0 || p->flags)
			return got;
		for (i = 0; i < got && run->count < OFI_BATCHES; i++) {
			struct ofi_batch *b = &run->batches[run->count];

			if (!commit_plain(s, &p->entries[i], &b->head, &b->count))
				break;
			b->began = now;
			b->tai = tai();
			b->ended = now = lane + (int64_t)ofi_monotonic();
			run->count++;
			note(counts, b, b->tai, frame);
		}
		renewed = renew(s, i);
		if (i < got) {
			memmove(p->entries, p->entries + i, (size_t)(got - i) * sizeof(*p->entries));
			return got - i;
		}
		if (!renewed || run->count == OFI_BATCHES || now >= end || now - run->began > SLOW)
			return 0;
		if (wait_ns > end - now)
			wait_ns = end - now;
	}
}

/* How long a completion is waited for before Go looks into it. */
#define COMPLETION_WAIT 100000000
/* How long the origin may be silent before Go looks into it. */
#define SILENCE 20000000

/* When the transfer after one with these times is due (fabrics, nextSamplePost). */
int64_t ofi_next_post(int64_t posted, int64_t completed, int64_t pass, int64_t gap)
{
	int64_t passes = (completed - posted + pass - 1) / pass;

	return posted + (passes > 0 ? passes : 1) * pass + gap;
}

/* Sleeps for ns; false when the wake descriptor ended it. */
static bool rest(struct ofi_poller *p, int64_t ns)
{
	int64_t until = (int64_t)ofi_monotonic() + ns;

	while (ns > 0) {
		struct pollfd wake = { .fd = p->wake_fd, .events = POLLIN };
		struct timespec ts = { ns / 1000000000, ns % 1000000000 };
		int ret = ppoll(&wake, 1, &ts, NULL);
		uint64_t value;

		if (ret > 0) {
			p->flags |= OFI_WOKEN;
			if (read(p->wake_fd, &value, sizeof(value)) < 0)
				value = 0;
			return false;
		}
		if (ret == 0)
			return true;
		if (errno != EINTR)
			return false;
		p->interrupted++;
		ns = until - (int64_t)ofi_monotonic();
	}
	return true;
}

/* Puts the count samples from next into the feed's next write. False when they were
 * overwritten, or their file cut off, meanwhile. */
static bool fill(struct ofi_feed *f, uint64_t count)
{
	uint8_t *buffer = f->buffers + f->entry % f->buffer_count * f->stride;
	uint64_t header[2] = { f->next + count, count }, newest;
	uint32_t faults = ofi_mapping_faults();

	memcpy(buffer, header, sizeof(header));
	gather(&f->ring, place_of(&f->ring, f->next + count, count), buffer + OFI_SAMPLE_HEADER);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	newest = __atomic_load_n(f->ring.head, __ATOMIC_ACQUIRE);
	if (newest < f->next + count || newest - f->next > f->ring.length / 2 || ofi_mapping_faults() != faults)
		return false;
	f->write.iov[0].iov_base = buffer;
	f->write.iov[0].iov_len = OFI_SAMPLE_HEADER + count * f->ring.count * f->ring.word;
	f->write.immediate = f->entry % f->remotes;
	f->write.remote_addr = f->remote[f->write.immediate].address;
	f->write.remote_key = f->remote[f->write.immediate].key;
	return true;
}

/* Sends what the origin has, each time that it is due and there is something, until
 * end or until a batch is not plain, a cycle was slow, the origin pauses, or something
 * else happened. The rest is as of ofi_exchange: completions that were not dealt with,
 * flags, and the result of the feed's write. Nothing may be in flight before; the last
 * batch of the run may be after it. now is the lane's time, and so is end. */
int ofi_send_samples(struct ofi_poller *p, struct ofi_feed *f, struct ofi_sample_counts *counts,
		     int64_t now, int64_t end)
{
	int64_t lane = now - (int64_t)ofi_monotonic();
	struct ofi_run *run = &f->run;
	bool armed = false;

	p->flags = 0;
	run->count = 0;
	f->write.result = 0;
	for (;;) {
		struct ofi_batch *b = &run->batches[run->count];
		uint64_t head, count;
		uint32_t seen;
		int got;

		note_starved(run, now);
		run->began = now;
		run->allowed = f->next_post > now ? f->next_post - now : 0;
		got = rest(p, run->allowed);
		run->woke = run->posted = now = lane + (int64_t)ofi_monotonic();
		if (!got)
			return 0;
		seen = __atomic_load_n(f->ring.sync, __ATOMIC_ACQUIRE);
		head = __atomic_load_n(f->ring.head, __ATOMIC_ACQUIRE);
		if (head == f->next) {
			int64_t until = now + SILENCE < end ? now + SILENCE : end;

			p->head = (const uint32_t *)f->ring.head; /* the format is little-endian */
			p->head_seen = (uint32_t)head;
			p->head_every = f->pass;
			ofi_sleep_on_word(p, f->ring.sync, seen, (uint64_t)(until - lane));
			run->began = run->woke = run->posted = now = lane + (int64_t)ofi_monotonic();
			run->allowed = 0;
			head = __atomic_load_n(f->ring.head, __ATOMIC_ACQUIRE);
			if (p->flags || head == f->next)
				return 0;
		}
		if (head < f->next || head - f->next > f->ring.length / 2)
			return 0;
		count = head - f->next < f->limit ? head - f->next : f->limit;
		b->began = now;
		b->tai = tai();
		b->ended = 0;
		if (!fill(f, count) || ofi_post(&f->write, 1) != 1)
			return 0;
		f->entry++;
		b->head = f->next = f->next + count;
		b->count = count;
		run->count++;
		b->posted = run->posted = lane + (int64_t)ofi_monotonic();

		got = ofi_poll_armed(p, COMPLETION_WAIT, &armed);
		if (got != 1 || p->flags || (uint64_t)(uintptr_t)p->entries[0].op_context != f->write.token)
			return got;
		b->ended = now = lane + (int64_t)ofi_monotonic();
		note(counts, b, b->tai + (uint64_t)(now - b->began), f->ring.count * f->ring.word);
		f->next_post = ofi_next_post(b->began, now, f->pass, f->gap);
		if (run->count == OFI_BATCHES || now >= end || now - run->began > SLOW)
			return 0;
	}
}
