// Package httpapi is the plumbing of the agent's HTTP server: routes,
// answers, events and the rules for browsers. What the endpoints say is the
// agent's business.
//
// The original agent's client reads to the end of the stream and knows no
// chunked encoding (agent API reference §1.2). Every answer made here carries
// its Content-Length or is delimited by the end of the connection.
package httpapi
