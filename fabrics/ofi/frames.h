/* Checks what arrives on connections of libfabric's tcp provider. */
#ifndef MXL_FABRICS_FRAMES_H
#define MXL_FABRICS_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#define FRAMES_HEAD 48 /* the longest header of a write: with immediate, one region */

/* One direction of a connection. */
struct frames_stream {
	uint64_t skip; /* bytes of connection data or payload that are left */
	uint8_t head[FRAMES_HEAD];
	uint8_t have, want;
	uint8_t greeted; /* the handshake message is over */
	uint8_t counted; /* the frame whose payload passes wants an acknowledgement */
};

/* active: this end asked for the connection, and writes. */
struct frames_connection {
	struct frames_stream in, out;
	uint64_t unacknowledged; /* writes that were sent whole */
	uint8_t active, swapped;
	const char *broken;      /* what was wrong with it; nothing is read any more */
};

void frames_begin(struct frames_connection *c, int active);
const char *frames_received(struct frames_connection *c, const uint8_t *p, size_t n);
void frames_sent(struct frames_connection *c, const uint8_t *p, size_t n);

/* connect() of this thread opens a connection of the tcp provider. */
void frames_connecting(int yes);
int frames_hooked(void);
/* What the last connection of this thread that was ended here did; NULL when there
 * was none since the last call. */
const char *frames_fault(void);

#endif
