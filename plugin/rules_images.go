package plugin

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// ImageConfig is the part of the plugin's config that is about images.
type ImageConfig struct {
	Images              *ImageRulesConfig   `codec:"images"`
	Auth                *RegistryAuthConfig `codec:"auth"`
	ImagePullTimeout    string              `codec:"image_pull_timeout"`
	PullActivityTimeout string              `codec:"pull_activity_timeout"`
	GC                  *GCConfig           `codec:"gc"`
}

// ImageRulesConfig is the plugin's images block.
type ImageRulesConfig struct {
	Allow        []string `codec:"allow"`
	Deny         []string `codec:"deny"`
	DigestOnly   bool     `codec:"digest_only"`
	AllowLoad    bool     `codec:"allow_load"`
	TrustPresent bool     `codec:"trust_present"`
	Prepull      []string `codec:"prepull"`
}

// RegistryAuthConfig is the plugin's auth block.
type RegistryAuthConfig struct {
	Config string `codec:"config"`
	Helper string `codec:"helper"`
}

// GCConfig is the plugin's gc block.
type GCConfig struct {
	Image      *bool  `codec:"image"`
	ImageDelay string `codec:"image_delay"`
}

// addImageConfig adds the schema of ImageConfig.
func addImageConfig(s map[string]*hclspec.Spec) {
	maps.Copy(s, map[string]*hclspec.Spec{
		"images": hclspec.Block("images", hclspec.Object(map[string]*hclspec.Spec{
			"allow":         hclspec.Attr("allow", hclspec.StringList),
			"deny":          hclspec.Attr("deny", hclspec.StringList),
			"digest_only":   hclspec.Attr("digest_only", hclspec.Bool),
			"allow_load":    hclspec.Attr("allow_load", hclspec.Bool),
			"trust_present": hclspec.Attr("trust_present", hclspec.Bool),
			"prepull":       hclspec.Attr("prepull", hclspec.StringList),
		})),
		"auth": hclspec.Block("auth", hclspec.Object(map[string]*hclspec.Spec{
			"config": hclspec.Attr("config", hclspec.String),
			"helper": hclspec.Attr("helper", hclspec.String),
		})),
		"image_pull_timeout":    hclspec.Attr("image_pull_timeout", hclspec.String),
		"pull_activity_timeout": hclspec.Attr("pull_activity_timeout", hclspec.String),
		"gc": hclspec.Block("gc", hclspec.Object(map[string]*hclspec.Spec{
			"image":       hclspec.Attr("image", hclspec.Bool),
			"image_delay": hclspec.Attr("image_delay", hclspec.String),
		})),
	})
}

// ImageRules are the operator's decisions about images.
type ImageRules struct {
	// Allow, when not empty, is what images may be named; Deny wins over it.
	Allow, Deny []ImagePattern
	// DigestOnly refuses images that are named by tag.
	DigestOnly bool
	// AllowLoad lets jobs load archives although there are rules: what is in
	// an archive no rule about names can tell.
	AllowLoad bool
	// TrustPresent lets every job use what is on the node.
	TrustPresent bool
	// Prepull are images that are fetched before any task wants them, and kept.
	Prepull []string
	// AuthFile and AuthHelper are where credentials for registries are.
	AuthFile, AuthHelper string
	// PullTimeout and PullActivity are 0 where the driver's default holds.
	PullTimeout, PullActivity time.Duration
	// KeepUnused is how long an image stays that nobody uses; 0 for good.
	KeepUnused time.Duration
}

// defaultImageDelay is how long unused images stay when the operator says
// nothing.
const defaultImageDelay = 3 * time.Minute

// longestPull bounds image_pull_timeout.
const longestPull = 24 * time.Hour

var helperName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// imageRules reads the operator's image options.
func imageRules(f *faults, c ImageConfig) ImageRules {
	r := ImageRules{KeepUnused: defaultImageDelay}
	if i := c.Images; i != nil {
		r.Allow = imagePatterns(f, "images.allow", i.Allow)
		r.Deny = imagePatterns(f, "images.deny", i.Deny)
		r.DigestOnly, r.AllowLoad, r.TrustPresent = i.DigestOnly, i.AllowLoad, i.TrustPresent
		r.Prepull = i.Prepull
		for _, name := range i.Prepull {
			if _, err := reference.ParseNormalizedNamed(name); err != nil {
				f.add("images.prepull", name, "that is no image name", `for instance "registry.example.org/acme/agent:1"`)
			}
		}
	}
	if a := c.Auth; a != nil {
		r.AuthFile, r.AuthHelper = a.Config, a.Helper
		if a.Config != "" && !path.IsAbs(a.Config) {
			f.add("auth.config", a.Config, "want the absolute path of a config.json", `for instance "/etc/wardyn/docker.json"`)
		}
		if a.Helper != "" && (!helperName.MatchString(a.Helper) || strings.HasPrefix(a.Helper, "docker-credential-")) {
			f.add("auth.helper", a.Helper, "want the part of a credential helper's name after docker-credential-", `for instance "ecr-login"`)
		}
	}
	r.PullTimeout = duration(f, "image_pull_timeout", c.ImagePullTimeout, time.Second, longestPull)
	r.PullActivity = duration(f, "pull_activity_timeout", c.PullActivityTimeout, time.Second, longestPull)
	if g := c.GC; g != nil {
		if d := duration(f, "gc.image_delay", g.ImageDelay, time.Second, 365*24*time.Hour); d > 0 {
			r.KeepUnused = d
		}
		if g.Image != nil && !*g.Image {
			r.KeepUnused = 0
		}
	}
	return r
}

// ImagePattern matches the full names of images, with their registry. A star
// stands for any text. A pattern without a tag or digest covers all of them.
type ImagePattern string

// imagePatterns reads patterns; those without a star must be names.
func imagePatterns(f *faults, field string, list []string) []ImagePattern {
	var out []ImagePattern
	for _, text := range list {
		p := text
		if !strings.Contains(text, "*") {
			named, err := reference.ParseNormalizedNamed(text)
			if err != nil {
				f.add(field, text, "that is no image name", `for instance "registry.example.org/acme/*"`)
				continue
			}
			p = named.String()
		} else if strings.Contains(text, " ") || text == "" {
			f.add(field, text, "an image name has no blanks", "")
			continue
		}
		out = append(out, ImagePattern(p))
	}
	return out
}

// Allows reports whether the pattern covers what would run. Beside a digest a
// tag means nothing to an engine, so a pattern for tags does not cover one.
func (p ImagePattern) Allows(ref reference.Named) bool {
	names := []string{ref.Name()}
	d, pinned := ref.(reference.Digested)
	if !pinned {
		names = append(names, reference.TagNameOnly(ref).String())
	} else {
		names = append(names, ref.Name()+"@"+d.Digest().String())
		if strings.Contains(string(p), "@") {
			names = append(names, ref.String())
		}
	}
	return p.covers(names)
}

// Denies reports whether the pattern covers an image under any of its names.
func (p ImagePattern) Denies(ref reference.Named) bool {
	names := []string{ref.Name(), ref.String(), reference.TagNameOnly(ref).String()}
	if t, ok := ref.(reference.Tagged); ok {
		names = append(names, ref.Name()+":"+t.Tag())
	}
	if d, ok := ref.(reference.Digested); ok {
		names = append(names, ref.Name()+"@"+d.Digest().String())
	}
	return p.covers(names)
}

func (p ImagePattern) covers(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return glob(string(p), n) })
}

// glob matches text against a pattern in which a star stands for any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, mid := range parts[1 : len(parts)-1] {
		i := strings.Index(text, mid)
		if i < 0 {
			return false
		}
		text = text[i+len(mid):]
	}
	return strings.HasSuffix(text, last)
}

func patternList(list []ImagePattern) string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = string(p)
	}
	return strings.Join(out, ", ")
}
