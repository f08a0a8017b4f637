package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

// MaxBody is the largest request body taken, in bytes.
const MaxBody = 2 << 20

// WriteJSON answers with a compact JSON document. Members come in the order
// of the struct's fields, or in byte order for maps.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		WriteError(w, http.StatusInternalServerError, fmt.Sprintf("encode the answer: %v", err))
		return
	}
	WriteBody(w, status, "application/json", bytes.TrimSuffix(body.Bytes(), []byte("\n")))
}

// WriteError answers with {"error":"…"}.
func WriteError(w http.ResponseWriter, status int, reason string) {
	WriteJSON(w, status, struct {
		Error string `json:"error"`
	}{reason})
}

// WriteBody answers with a whole body and its length. Nobody may guess
// another type or keep an answer for later.
func WriteBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	// A client that went away is its own business.
	_, _ = w.Write(body)
}

// WriteEmpty answers 204.
func WriteEmpty(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }

// ReadBody reads the request's body. When it is too large or does not arrive
// the answer has been given and ok is false.
func ReadBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err == nil {
		return body, true
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		WriteError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", MaxBody))
		return nil, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it did not arrive within %v", readTimeout)
	}
	WriteError(w, http.StatusBadRequest, fmt.Sprintf("read the body: %v", err))
	return nil, false
}
