// Package ofi is a thin layer over libfabric: queries, connected endpoints, event
// and completion queues, memory registration and batches of RMA writes.
//
// Handles own a libfabric object and have an idempotent Close; every other method
// returns ErrClosed afterwards. A handle and everything opened from it belongs to
// one thread. No Go pointer is kept by C beyond a call: queue entries, write
// lists, contexts and addresses live in C memory.
package ofi
