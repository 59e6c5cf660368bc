package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// madeArchive is an archive with one layer, as a test wants it.
type madeArchive struct {
	tags     []string
	images   int // entries of the manifest
	claims   []byte
	layer    []byte // what is in the archive; nil leaves it out
	linked   bool   // the layer is behind a link
	zipLayer bool
	order    string // "manifest first" or "last"
}

func (m madeArchive) bytes(t *testing.T) (archive []byte, id string) {
	t.Helper()
	config := toJSON(t, map[string]any{"os": "linux", "architecture": "amd64", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(m.claims)}}})
	entry := map[string]any{"Config": "c.json", "RepoTags": m.tags, "Layers": []string{"a/layer.tar"}}
	var list []any
	for range m.images {
		list = append(list, entry)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, text []byte) {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		w.Write(text)
	}
	if m.order != "last" {
		add("manifest.json", toJSON(t, list))
	}
	add("repositories", []byte(`{"busybox":{"latest":"x"}}`))
	layer := m.layer
	if m.zipLayer {
		layer = gzipped(layer)
	}
	switch {
	case layer == nil:
	case m.linked:
		w.WriteHeader(&tar.Header{Name: "a/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../b/layer.tar"})
		add("b/layer.tar", layer)
	default:
		add("a/layer.tar", layer)
	}
	add("c.json", config)
	if m.order == "last" {
		add("./manifest.json", toJSON(t, list))
	}
	w.Close()
	return b.Bytes(), digestOf(config)
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// K30: an archive is one image, has the layers that it claims, and gives the
// engine no name and nothing else of its own.
func TestK30Archives(t *testing.T) {
	good := []byte("a layer")
	for name, c := range map[string]struct {
		madeArchive
		want string // "" is taken
	}{
		"plain":              {madeArchive{images: 1, claims: good, layer: good}, ""},
		"manifest last":      {madeArchive{images: 1, claims: good, layer: good, order: "last"}, ""},
		"named":              {madeArchive{images: 1, claims: good, layer: good, tags: []string{"other:1", "mine:1"}}, ""},
		"zipped layer":       {madeArchive{images: 1, claims: good, layer: good, zipLayer: true}, ""},
		"layer behind link":  {madeArchive{images: 1, claims: good, layer: good, linked: true}, ""},
		"two images":         {madeArchive{images: 2, claims: good, layer: good}, "exactly one"},
		"no image":           {madeArchive{images: 0, claims: good, layer: good}, "exactly one"},
		"another name":       {madeArchive{images: 1, claims: good, layer: good, tags: []string{"busybox:latest"}}, "is named"},
		"borrowed layer":     {madeArchive{images: 1, claims: []byte("of another image"), layer: good}, "something else"},
		"layer not in there": {madeArchive{images: 1, claims: good}, "not in the archive"},
	} {
		text, id := c.bytes(t)
		for form, b := range map[string][]byte{"plain": text, "zipped": gzipped(text)} {
			got, err := handedOn(b)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", name, form, err, c.want)
			}
			if err != nil {
				continue
			}
			if got.id != id || got.tag != "wardyn-load/x:1" || got.others != "" || got.layers != 1 {
				t.Errorf("%s, %s: the engine would get %+v", name, form, got)
			}
		}
	}
	for name, b := range map[string][]byte{"empty": {}, "text": []byte("no archive at all, but a long text"), "cut": gzipped([]byte("x"))[:5]} {
		if _, err := handedOn(b); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

type handed struct {
	id, tag, others string
	layers          int
}

// handedOn reads what the engine would be given.
func handedOn(b []byte) (h handed, err error) {
	a, err := readArchive(bytes.NewReader(b))
	if err != nil {
		return h, err
	}
	if err := a.mustBe("docker.io/library/mine:1"); err != nil {
		return h, err
	}
	var out bytes.Buffer
	if err := a.write(&out, "wardyn-load/x:1"); err != nil {
		return h, err
	}
	for r := tar.NewReader(&out); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return h, err
		}
		text, _ := io.ReadAll(r)
		switch {
		case e.Name == "config.json":
			h.id = digestOf(text)
		case e.Name == "manifest.json":
			var m []struct{ RepoTags []string }
			json.Unmarshal(text, &m)
			h.tag = m[0].RepoTags[0]
		case strings.HasSuffix(e.Name, ".tar"):
			h.layers++
		default:
			h.others += e.Name
		}
	}
}

// FuzzArchive: whatever is in a file, nothing panics, and what is handed on is
// one image under our name.
func FuzzArchive(f *testing.F) {
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := handedOn(b); err == nil && (h.others != "" || h.tag != "wardyn-load/x:1") {
			t.Errorf("%+v", h)
		}
	})
}
