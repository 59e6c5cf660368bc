package plugin

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

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
	if i := slices.IndexFunc(r.Deny, func(p ImagePattern) bool { return p.Denies(named) }); i >= 0 {
		f.add("image", c.Image, "the operator denies "+string(r.Deny[i])+" (plugin option images.deny)", "use another image")
	} else if len(r.Allow) > 0 && !slices.ContainsFunc(r.Allow, func(p ImagePattern) bool { return p.Allows(named) }) {
		f.add("image", c.Image, "it is none of those that the operator allows (plugin option images.allow)", "allowed is "+patternList(r.Allow))
	}
	if _, ok := named.(reference.Digested); r.DigestOnly && !ok && c.Load == "" {
		f.add("image", c.Image, "the operator wants images by digest (plugin option images.digest_only)", "write "+named.Name()+"@sha256:...")
	}
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
	if !slices.ContainsFunc(slices.Collect(maps.Values(m)), func(s string) bool { return s != "" }) {
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
