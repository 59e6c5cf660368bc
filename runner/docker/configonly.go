package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// loadedConfig is an image's configuration as it is loaded. Everything else an
// engine writes into one (the container it came from, its history) is left
// out: values that were blanked would live on there.
type loadedConfig struct {
	Architecture string         `json:"architecture"`
	Variant      string         `json:"variant,omitempty"`
	OS           string         `json:"os"`
	Created      string         `json:"created"`
	Config       map[string]any `json:"config"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// configOnly is an archive with the configuration of an image whose layers the
// engine has already, and the id it loads as.
func configOnly(tag string, made, base image.InspectResponse, blankEnv []string, labels map[string]string) (archive []byte, id string, err error) {
	if made.RootFS.Type != "layers" || len(made.RootFS.Layers) == 0 {
		return nil, "", fmt.Errorf("image %s: the engine does not say what layers it has: %w", made.ID, runner.ErrUnsupported)
	}
	c := loadedConfig{Architecture: base.Architecture, Variant: base.Variant, OS: base.Os, Created: made.Created, Config: map[string]any{}}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", made.RootFS.Layers
	if err := copyConfig(c.Config, base); err != nil {
		return nil, "", err
	}
	var have []string
	all := map[string]string{}
	if base.Config != nil {
		have = base.Config.Env
		maps.Copy(all, base.Config.Labels)
	}
	c.Config["Env"] = blanked(have, blankEnv)
	maps.DeleteFunc(all, func(k, _ string) bool { return strings.HasPrefix(k, labelPrefix) })
	maps.Copy(all, labels)
	c.Config["Labels"] = all
	config, err := json.Marshal(c)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(config)
	name := hex.EncodeToString(sum[:])
	archive, err = packConfig(name, tag, config, len(made.RootFS.Layers))
	return archive, "sha256:" + name, err
}

// copyConfig takes over what an image says about how it wants to be run.
func copyConfig(to map[string]any, base image.InspectResponse) error {
	if base.Config == nil {
		return nil
	}
	b, err := json.Marshal(base.Config)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &to)
}

// blanked is an environment in which each of names is there and empty.
func blanked(env, names []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, k)
	})
	for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
		out = append(out, n+"=")
	}
	return out
}

// packConfig writes the archive. Layers are named and absent: the engine looks
// for those it has before it opens a file.
func packConfig(name, tag string, config []byte, layers int) ([]byte, error) {
	paths := make([]string, layers)
	for i := range paths {
		paths[i] = fmt.Sprintf("%d/layer.tar", i)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": name + ".json", "RepoTags": []string{withTag(tag)}, "Layers": paths}})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string
		data []byte
	}{{name + ".json", config}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o444, Size: int64(len(f.data)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

// withTag is a name with the tag that it has when it names none.
func withTag(name string) string {
	if strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") {
		return name
	}
	return name + ":latest"
}
