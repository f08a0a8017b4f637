package mesh

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Report writes what a run has measured as a JSON document, with its directory, and
// gives the text.
func Report(path string, figures any) ([]byte, error) {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return text, os.WriteFile(path, append(text, '\n'), 0o644)
}
