package nearest

import "testing"

func TestName(t *testing.T) {
	known := []string{"image", "imagine", "args", "tty", "f"}
	for name, want := range map[string]string{
		"imge": "image", "iamge": "image", "imagge": "image", "imagin": "imagine", "arg": "args", "privileged": "",
		"image": "imagine", // what is known already is no suggestion
		"f":     "", "x": "", "": "",
	} {
		if got, ok := Name(name, known); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v; want %q", name, got, ok, want)
		}
	}
}
