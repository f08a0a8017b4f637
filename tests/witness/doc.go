// Package witness watches mirrors of mxl-pattern flows from inside a test
// program: it verifies every byte of every index that comes, notices every index
// that does not, and asks the origin's ring whether that one was ever written.
// What a late writer left out is no loss; everything else that a mirror's head
// passed over is.
//
// A witness opens a mirror as a media function does, read-only, and opens it
// again only when the file was replaced. It needs the rings of both hosts in its
// own mount namespace.
package witness
