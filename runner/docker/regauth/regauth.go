// Package regauth finds an operator's credentials for a registry: in a file as
// "docker login" writes it, or from a credential helper.
package regauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"
	"github.com/docker/docker/api/types/registry"
)

// helperTimeout bounds one call of a helper, which may ask a cloud's API.
const helperTimeout = 30 * time.Second

// hubKey is the name under which credentials of Docker Hub are kept.
const hubKey = "https://index.docker.io/v1/"

// Source is where credentials are looked for. The zero value has none.
type Source struct {
	// File is a config.json as "docker login" writes it; "" is none. It is
	// read anew each time.
	File string
	// Helper is the part of a helper's name after "docker-credential-"; "" is
	// none. The file wins where it knows the registry.
	Helper string
}

// Key is the name of a reference's registry in files and helpers.
func Key(ref reference.Named) string {
	if host := reference.Domain(ref); host != "docker.io" {
		return host
	}
	return hubKey
}

// Find returns the credentials for a registry; nil when there are none.
func (s Source) Find(ctx context.Context, key string) (*registry.AuthConfig, error) {
	if s.File != "" {
		a, err := inFile(ctx, s.File, key)
		if a != nil || err != nil {
			return a, err
		}
	}
	if s.Helper == "" {
		return nil, nil
	}
	return fromHelper(ctx, s.Helper, key)
}

// inFile reads one registry's credentials from a file, or asks the helper that
// the file names for it.
func inFile(ctx context.Context, path, key string) (*registry.AuthConfig, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	defer f.Close()
	cf, err := config.LoadFromReader(f)
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %s cannot be read as a config.json", path) // the cause may quote a password
	}
	helper := cf.CredentialHelpers[key]
	if helper == "" {
		helper = cf.CredentialsStore
	}
	if helper != "" {
		if a, err := fromHelper(ctx, helper, key); a != nil || err != nil {
			return a, err
		}
	}
	return plain(cf, key)
}

func plain(cf *configfile.ConfigFile, key string) (*registry.AuthConfig, error) {
	cf.CredentialsStore, cf.CredentialHelpers = "", nil
	a, err := cf.GetAuthConfig(key)
	if err != nil {
		return nil, fmt.Errorf("registry credentials for %s: %w", key, err)
	}
	if a.Username == "" && a.Password == "" && a.IdentityToken == "" && a.RegistryToken == "" {
		return nil, nil
	}
	return &registry.AuthConfig{
		Username: a.Username, Password: a.Password, Auth: a.Auth, ServerAddress: key,
		IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
	}, nil
}

// tokenUser is what helpers answer as user name when the secret is a token.
const tokenUser = "<token>"

func fromHelper(ctx context.Context, helper, key string) (*registry.AuthConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	name := "docker-credential-" + helper
	if _, err := exec.LookPath(name); err != nil {
		return nil, fmt.Errorf("registry credentials: helper %s is not in the PATH of the Nomad agent, %s", name, os.Getenv("PATH"))
	}
	c, err := client.Get(func(args ...string) client.Program {
		return &program{exec.CommandContext(ctx, name, args...)}
	}, key)
	if credentials.IsErrCredentialsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("registry credentials: helper %s has not answered within %v: %w", name, helperTimeout, ctx.Err())
		}
		return nil, fmt.Errorf("registry credentials: helper %s: %s", name, strings.TrimSpace(err.Error()))
	}
	a := &registry.AuthConfig{Username: c.Username, Password: c.Secret, ServerAddress: key}
	if c.Username == tokenUser {
		a.Username, a.Password, a.IdentityToken = "", "", c.Secret
	}
	return a, nil
}

// program is a helper that ends with its context.
type program struct{ *exec.Cmd }

// Output runs the helper and returns what it prints.
func (p *program) Output() ([]byte, error) { return p.Cmd.Output() }

// Input gives the helper what it reads.
func (p *program) Input(in io.Reader) { p.Stdin = in }
