// Package mxl reads and writes MXL flows in shared memory, bit-compatible with the MXL SDK, without cgo.
//
// A Domain is a directory, normally on tmpfs, that holds flows. A discrete flow (video, ancillary data) is a ring of
// grains; a continuous flow (audio) is a ring of samples per channel. Writers hold a shared lock and never wait for
// readers; readers hold nothing and must check that what they used was not overwritten meanwhile.
//
// The section numbers in the comments are those of the MXL format reference (docs of this project).
//
// Files in a domain belong to others: they are opened without following symbolic links, their sizes are checked against
// their headers before they are mapped, and a mapping that loses its file under the reader gives an error, not a crash.
package mxl
