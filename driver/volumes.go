package driver

// namedPrefix begins the name of every volume that a job named by itself.
const namedPrefix = "wardyn-vol-"

// NamedVolume is the engine's name of a volume that a job calls name. It is
// made of the job's namespace too, so that no two namespaces meet in one.
func NamedVolume(namespace, name string) string {
	return namedPrefix + escape(namespace+"\x00"+name)
}
