// Package openapi holds the OpenAPI 3.0 description of the HTTP API.
package openapi

import (
	_ "embed"
	"slices"
)

//go:embed openapi.json
var document []byte

// Document is the description, JSON.
func Document() []byte { return slices.Clone(document) }
