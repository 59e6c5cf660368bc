package plugin

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
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
	}
	if a := c.Auth; a != nil {
		r.AuthFile, r.AuthHelper = a.Config, a.Helper
		if a.Config != "" && !path.IsAbs(a.Config) {
			f.add("auth.config", a.Config, "want the absolute path of a config.json", `for instance "/etc/wardyn/docker.json"`)
		}
		if a.Helper != "" && !helperName.MatchString(a.Helper) {
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

// duration reads a span of time such as "5m"; "" is 0.
func duration(f *faults, field, text string, least, most time.Duration) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		f.add(field, text, "want a span of time from "+least.String()+" to "+most.String(), `for instance "5m"`)
		return 0
	}
	return d
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

// Matches reports whether the pattern covers an image.
func (p ImagePattern) Matches(ref reference.Named) bool {
	names := []string{ref.Name(), reference.TagNameOnly(ref).String()}
	if t, ok := ref.(reference.Tagged); ok {
		names = append(names, ref.Name()+":"+t.Tag())
	}
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

// ImageTaskConfig is the part of a task's config that is about its image.
type ImageTaskConfig struct {
	Auth             any    `codec:"auth"`
	AuthSoftFail     bool   `codec:"auth_soft_fail"`
	ForcePull        bool   `codec:"force_pull"`
	ImagePullTimeout string `codec:"image_pull_timeout"`
	Load             string `codec:"load"`
}

// addImageTask adds the schema of ImageTaskConfig.
func addImageTask(s map[string]*hclspec.Spec) {
	s["auth"] = hclspec.Attr("auth", hclspec.Any)
	s["auth_soft_fail"] = hclspec.Attr("auth_soft_fail", hclspec.Bool)
	s["force_pull"] = hclspec.Attr("force_pull", hclspec.Bool)
	s["image_pull_timeout"] = hclspec.Attr("image_pull_timeout", hclspec.String)
	s["load"] = hclspec.Attr("load", hclspec.String)
}

// imageAsk is what a task's author asked for about its image.
type imageAsk struct {
	Source runner.ImageSource
	// Load is the archive to load the image from; nil pulls it.
	Load *taskpath.Source
}

// readImage reads and judges the image and the options about it.
func (a *ask) readImage(c TaskConfig, h HostConfig, f *faults) {
	named := readImageName(c.Image, f)
	a.Pull.Source = runner.ImageSource{
		AuthSoftFail: c.AuthSoftFail, Always: c.ForcePull,
		Timeout: cmp.Or(duration(f, "image_pull_timeout", c.ImagePullTimeout, time.Second, longestPull), h.Images.PullTimeout),
	}
	a.Pull.Source.Auth = readAuth(c.Auth, f)
	if c.Load != "" {
		a.readLoad(c, h.Images, f)
	}
	if named != nil {
		judgeImage(named, c, h.Images, f)
	}
}

// reservedImages are the repositories in which the driver keeps images of its
// own.
var reservedImages = []string{"wardyn-snap", "wardyn-tools", "wardyn-load", "rainier-env"}

// readImageName reads a name with its registry and tag filled in; nil when it
// is none.
func readImageName(image string, f *faults) reference.Named {
	const field = "image"
	switch {
	case image == "":
		f.add(field, nil, "it is missing", `name the image to run, for instance image = "busybox:1"`)
		return nil
	case strings.ContainsAny(image, " \t\n"):
		f.add(field, image, "an image name has no blanks", "")
		return nil
	case strings.HasPrefix(image, "sha256:"):
		f.add(field, image, "an image is not named by its id", "write a tag, or the name with a digest: name@sha256:...")
		return nil
	case strings.Contains(image, "://"):
		f.add(field, image, "an image is named without a transport", "write the name; an archive is loaded with load")
		return nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		f.add(field, image, "that is no image name: "+err.Error(), `for instance "registry.example.org/acme/agent:1"`)
		return nil
	}
	first, _, _ := strings.Cut(reference.FamiliarName(named), "/")
	if slices.Contains(reservedImages, first) && !isSnapshot(image) {
		f.add(field, image, "the name belongs to the driver", "use an image of your own")
		return nil
	}
	return named
}

// judgeImage applies the operator's rules.
func judgeImage(named reference.Named, c TaskConfig, r ImageRules, f *faults) {
	covers := func(p ImagePattern) bool { return p.Matches(named) }
	if i := slices.IndexFunc(r.Deny, covers); i >= 0 {
		f.add("image", c.Image, "the operator denies "+string(r.Deny[i])+" (plugin option images.deny)", "use another image")
	} else if len(r.Allow) > 0 && !slices.ContainsFunc(r.Allow, covers) {
		f.add("image", c.Image, "it is none of those that the operator allows (plugin option images.allow)", "allowed is "+patternList(r.Allow))
	}
	if _, ok := named.(reference.Digested); r.DigestOnly && !ok && c.Load == "" {
		f.add("image", c.Image, "the operator wants images by digest (plugin option images.digest_only)", "write "+named.Name()+"@sha256:...")
	}
}

func patternList(list []ImagePattern) string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = string(p)
	}
	return strings.Join(out, ", ")
}

// readLoad reads where the image's archive is. As with other drivers a bare
// path is one below local/.
func (a *ask) readLoad(c TaskConfig, r ImageRules, f *faults) {
	if (len(r.Allow) > 0 || len(r.Deny) > 0 || r.DigestOnly) && !r.AllowLoad {
		f.add("load", c.Load, "the operator has rules for images, which say nothing of archives (plugin option images.allow_load)", "push the image to a registry")
	}
	if c.ForcePull {
		f.add("force_pull", true, "an image that is loaded is not pulled", "remove force_pull or load")
	}
	text := c.Load
	if first, _, _ := strings.Cut(path.Clean(text), "/"); !path.IsAbs(text) && first != "local" && first != "alloc" && first != ".." {
		text = path.Join("local", text)
	}
	src, err := taskpath.ParseSource(text)
	if err != nil {
		f.add("load", c.Load, err.Error(), "name an archive in the task's folders, for instance local/image.tar")
		return
	}
	a.Pull.Load = &src
}

// readAuth reads the auth block. No value of it is ever shown.
func readAuth(v any, f *faults) *runner.RegistryAuth {
	m, err := stringMap(v)
	if err != nil {
		f.add("auth", nil, err.Error(), "write a block with username and password")
		return nil
	}
	if len(m) == 0 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch k {
		case "username", "password", "server_address", "email":
		default:
			f.add("auth."+k, nil, "no such option", "the block takes username, password, server_address and email, which is not used")
		}
	}
	if m["username"] == "" || m["password"] == "" {
		f.add("auth", nil, "username and password are both needed", "remove the block to use the operator's credentials")
	}
	return &runner.RegistryAuth{Username: m["username"], Password: m["password"], Server: m["server_address"]}
}
