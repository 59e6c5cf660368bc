package plugin

// checkHeld refuses a job that asks for two things at once: that a secret stays
// outside the sandbox, and that the folder it lies in is mounted there. The
// file cannot be covered instead, since Nomad renders it anew under the mount.
func (a *ask) checkHeld(f *faults) {
	if !a.Secrets {
		return
	}
	refuse := func(field, file string) {
		if file != "" {
			f.add(field, "secrets/"+file, "mount_secrets = true shows that file to the sandbox, which is never to hold this secret",
				"remove mount_secrets and render what the task itself needs to local/, or have the operator hold the secret (plugin options credential and git_grant)")
		}
	}
	for _, in := range a.Inject {
		refuse("inject."+in.Name+".secret_file", in.File)
	}
	for _, g := range a.Git {
		refuse("git."+g.Name+".token_file", g.File)
	}
}
