package plugin

// shutIn reports whether a task that has a network can reach nothing through it.
func (a *ask) shutIn() bool {
	return !a.NoNetwork && len(a.Allow) == 0 && !a.AllowAll && !a.Learn && !a.FirstUse.RaisesApproval() && len(a.Git) == 0
}
