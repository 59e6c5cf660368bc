package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/distribution/reference"
)

const (
	// maxArchiveJSON bounds manifest and configuration of an archive, each.
	maxArchiveJSON = 4 << 20
	// maxLayers is what engines can stack, and a bound for what is read.
	maxLayers = 127
)

// imageArchive is the one image of an archive as "docker save" writes it. What
// is handed to the engine is written anew: its configuration as it was read,
// its layers while they are checked against it, and a manifest of ours. So an
// archive can name no tag of the node, and holds the layers it claims: an
// engine skips the layers it has, and would lend those of any image.
type imageArchive struct {
	from   io.ReadSeeker
	id     string // of the image: the digest of its configuration
	config []byte
	tags   []string
	layers []string // names in the archive, the lowest first
	diffs  []string // what the layers must hash to
}

// readArchive finds out what an archive holds.
func readArchive(from io.ReadSeeker) (*imageArchive, error) {
	text, err := archiveFile(from, "manifest.json")
	if err != nil {
		return nil, err
	}
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if len(manifest) != 1 {
		return nil, fmt.Errorf("the archive holds %d images; want exactly one", len(manifest))
	}
	m := manifest[0]
	a := &imageArchive{from: from, tags: m.RepoTags}
	if a.config, err = archiveFile(from, m.Config); err != nil {
		return nil, err
	}
	a.id = digestOfBytes(a.config)
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(a.config, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Config, err)
	}
	a.diffs = config.RootFS.DiffIDs
	if len(a.diffs) != len(m.Layers) || len(a.diffs) == 0 || len(a.diffs) > maxLayers {
		return nil, fmt.Errorf("the manifest lists %d layers and the configuration %d", len(m.Layers), len(a.diffs))
	}
	for _, l := range m.Layers {
		a.layers = append(a.layers, path.Clean(l))
	}
	return a, a.followLinks()
}

// followLinks puts in place of layers that are links what they lead to: equal
// layers are written once.
func (a *imageArchive) followLinks() error {
	return eachFile(a.from, func(h *tar.Header, _ io.Reader) error {
		if h.Typeflag != tar.TypeSymlink && h.Typeflag != tar.TypeLink {
			return nil
		}
		name := path.Clean(h.Name)
		to := path.Clean(h.Linkname)
		if h.Typeflag == tar.TypeSymlink {
			to = path.Join(path.Dir(name), h.Linkname)
		}
		for i, l := range a.layers {
			if l == name {
				a.layers[i] = to
			}
		}
		return nil
	})
}

// mustBe refuses an archive that has names, and not the one the job writes.
func (a *imageArchive) mustBe(ref string) error {
	want, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return err
	}
	want = reference.TagNameOnly(want)
	for _, t := range a.tags {
		if have, err := reference.ParseNormalizedNamed(t); err == nil && reference.TagNameOnly(have).String() == want.String() {
			return nil
		}
	}
	if len(a.tags) == 0 {
		return nil
	}
	return fmt.Errorf("the archive's image is named %q and the job's %q; write that name in image", a.tags, ref)
}

// write hands the image on under a name, in the order in which the archive has
// its layers, and ends with an error as soon as one is not what it should be.
func (a *imageArchive) write(to io.Writer, name string) error {
	w := tar.NewWriter(to)
	found := make(map[string]string) // digests by name in the archive
	err := eachFile(a.from, func(h *tar.Header, r io.Reader) error {
		clean := path.Clean(h.Name)
		if !slices.Contains(a.layers, clean) || h.Typeflag != tar.TypeReg {
			return nil
		}
		if found[clean] != "" {
			return fmt.Errorf("%s is there twice", clean)
		}
		digest, err := copyLayer(w, layerName(clean), h.Size, r)
		if err == nil && !slices.Contains(a.diffs, digest) {
			err = fmt.Errorf("layer %s holds something else than the image's configuration says", clean)
		}
		found[clean] = digest
		return err
	})
	if err != nil {
		return err
	}
	names := make([]string, len(a.layers))
	for i, l := range a.layers {
		if found[l] != a.diffs[i] {
			return fmt.Errorf("layer %s is not in the archive as the image's configuration wants it", l)
		}
		names[i] = layerName(l)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": names}})
	if err != nil {
		return err
	}
	if err := errors.Join(putFile(w, "config.json", a.config), putFile(w, "manifest.json", manifest)); err != nil {
		return err
	}
	return w.Close()
}

// layerName is a layer's name in what the engine gets.
func layerName(name string) string { return hex.EncodeToString([]byte(name)) + ".tar" }

// copyLayer hands a layer on and returns the digest of what it unpacks to.
func copyLayer(w *tar.Writer, name string, size int64, r io.Reader) (string, error) {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: size}); err != nil {
		return "", err
	}
	tee := bufio.NewReader(io.TeeReader(r, w))
	plain, err := unzipped(tee)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, plain); err != nil {
		return "", err
	}
	// What follows the compressed data belongs to the file all the same.
	if _, err := io.Copy(io.Discard, tee); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func putFile(w *tar.Writer, name string, b []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// archiveFile reads one small file of an archive.
func archiveFile(from io.ReadSeeker, name string) ([]byte, error) {
	var out []byte
	stop := errors.New("found")
	err := eachFile(from, func(h *tar.Header, r io.Reader) error {
		if path.Clean(h.Name) != path.Clean(name) {
			return nil
		}
		if h.Typeflag != tar.TypeReg || h.Size > maxArchiveJSON {
			return fmt.Errorf("%s is no plain file of at most %d bytes", name, maxArchiveJSON)
		}
		var err error
		if out, err = io.ReadAll(r); err != nil {
			return err
		}
		return stop
	})
	switch {
	case errors.Is(err, stop):
		return out, nil
	case err == nil:
		err = fmt.Errorf("the archive has no %q; want one as docker save writes it", name)
	}
	return nil, err
}

// eachFile walks an archive from its start, zipped or not.
func eachFile(from io.ReadSeeker, each func(*tar.Header, io.Reader) error) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	plain, err := unzipped(bufio.NewReader(from))
	if err != nil {
		return err
	}
	t := tar.NewReader(plain)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the file is no tar archive, zipped or plain: %w", err)
		}
		if err := each(h, t); err != nil {
			return err
		}
	}
}

// unzipped undoes gzip where it is.
func unzipped(r *bufio.Reader) (io.Reader, error) {
	if head, _ := r.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return r, nil
	}
	return gzip.NewReader(r)
}

func digestOfBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
