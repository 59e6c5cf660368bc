package keeper

import "testing"

// TestK8LogBehindASilentTask: the task printed and fell silent before the fresh
// attach was there, and the engine has not yet written it all down. The attach
// brings nothing by which that could be seen.
func TestK8LogBehindASilentTask(t *testing.T) {
	w, engine, out := interrupted(t, "first\n")
	w.proc.print(stdout, "while nobody was attached\n")
	engine.hold = 1
	got, err := w.Resume(t.Context(), w.task, "", true, engine)
	if err != nil || got.Lost != 0 {
		t.Fatalf("lost %d, %v", got.Lost, err)
	}
	if got, want := w.ends(t, out), "first\nwhile nobody was attached\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
