package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sizeLimit is what the built files may have in all, in bytes: they are in every
// clone and every binary.
const sizeLimit = 400_000

// sources decide the built files; ui/vite.config.ts has the same list.
var sources = []string{"index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "public", "src"}

// TestCommittedFiles compares dist/SHA256SUMS, which the build writes, with the
// sources and the built files of this tree.
func TestCommittedFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	here := map[string]string{}
	for _, s := range sources {
		sum(t, root, filepath.Join("ui", s), here)
	}
	built := map[string]string{}
	sum(t, root, filepath.Join("agent", "ui", "dist"), built)
	delete(built, "agent/ui/dist/SHA256SUMS")
	maps.Copy(here, built)

	text, err := os.ReadFile(filepath.Join("dist", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(text)) {
		hash, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		recorded[name] = hash
	}
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if here[name] != recorded[name] {
			t.Errorf("%s is not the one the page was built with; run make ui and commit agent/ui/dist", name)
		}
	}
	for name := range recorded {
		if here[name] == "" {
			t.Errorf("the page was built with %s, which is gone; run make ui and commit agent/ui/dist", name)
		}
	}
	size := 0
	for name := range built {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		size += int(info.Size())
	}
	if size > sizeLimit {
		t.Errorf("the built page has %d bytes, more than %d", size, sizeLimit)
	}
}

// sum adds the hashes of the files at and below a path, by their names in the tree.
func sum(t *testing.T, root, path string, into map[string]string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, path), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		hash := sha256.Sum256(body)
		into[filepath.ToSlash(relative)] = hex.EncodeToString(hash[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLockfile holds that the lock file names no host: packages come from
// wherever the one who builds gets them, and their hashes are checked.
func TestLockfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ui", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"resolved"`) {
		t.Error("ui/package-lock.json has resolved addresses")
	}
}
