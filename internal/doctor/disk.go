package doctor

import "fmt"

// Free space below which a file system is worth a word, and below which tasks
// fail.
const (
	lowMiB    = 2048
	fullMiB   = 128
	lowInodes = 10000
)

func (x *examination) disks() {
	d := x.facts.Data
	switch {
	case d.Fault != "":
		x.add(Error, "data-dir", "data_dir", fmt.Sprintf("%s: %s", d.Path, d.Fault), "it must be a folder of root's with mode 0700, and no link: chown root:root and chmod 0700, or set the plugin option data_dir")
	case d.Missing:
		x.add(Info, "data-dir", "data_dir", d.Path+" is not there yet; the driver makes it when it first starts", "")
	default:
		x.add(Info, "data-dir", "data_dir", d.Path+" is root's alone", "")
	}
	for _, disk := range x.facts.Disks {
		x.disk(disk)
	}
}

func (x *examination) disk(d Disk) {
	subject := "disk of " + d.Of
	text := fmt.Sprintf("%d MiB of %d are free below %s", d.FreeMiB, d.TotalMiB, d.Path)
	const remedy = "remove images and containers that are not needed, or move the folder to a larger disk"
	switch {
	case d.Err != "":
		x.add(Warning, "disk-unknown", subject, fmt.Sprintf("%s: %s", d.Path, d.Err), "look whether the folder is there and its disk mounted")
	case d.FreeMiB < fullMiB:
		x.add(Error, "disk-full", subject, text+": tasks cannot start", remedy)
	case !d.NoInodeCount && d.FreeInodes < lowInodes:
		x.add(Warning, "disk-inodes", subject, fmt.Sprintf("%d more files can be made below %s", d.FreeInodes, d.Path), remedy)
	case d.FreeMiB < lowMiB:
		x.add(Warning, "disk-low", subject, text, remedy)
	default:
		x.add(Info, "disk", subject, text, "")
	}
}
