package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// imageBook remembers, in the data dir, which images this installation has put
// on the engine, and by which names: only those may it take away again.
type imageBook struct{ dir *datadir.Dir }

// imageNote is the book's entry of one image, under its id.
type imageNote struct {
	Names []string `json:"names"`
	// Used is when a container of anyone's was last seen to use it.
	Used time.Time `json:"used"`
}

// pulled notes that a name was pulled or loaded, as image id.
func (b imageBook) pulled(id, name string) error {
	return b.update(func(all map[string]imageNote) {
		n := all[id]
		if !slices.Contains(n.Names, name) {
			n.Names = append(n.Names, name)
		}
		n.Used = time.Now()
		all[id] = n
	})
}

// used notes that an image is wanted now, if it is in the book.
func (b imageBook) used(ids ...string) error {
	return b.update(func(all map[string]imageNote) {
		for _, id := range ids {
			if n, ok := all[id]; ok {
				n.Used = time.Now()
				all[id] = n
			}
		}
	})
}

func (b imageBook) forget(id string) error {
	return b.update(func(all map[string]imageNote) { delete(all, id) })
}

func (b imageBook) path() string { return b.dir.Path("images.json") }

func (b imageBook) read() (map[string]imageNote, error) {
	all := map[string]imageNote{}
	text, err := os.ReadFile(b.path())
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of pulled images: %w", err)
	}
	return all, nil
}

// update changes the book in one step, also against other processes.
func (b imageBook) update(change func(map[string]imageNote)) error {
	unlock, err := b.dir.Lock("images")
	if err != nil {
		return err
	}
	defer unlock()
	all, err := b.read()
	if err != nil {
		return err
	}
	before, _ := json.Marshal(all)
	change(all)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if after, _ := json.Marshal(all); string(after) == string(before) {
		return nil
	}
	return datadir.WriteFile(b.path(), append(text, '\n'))
}
