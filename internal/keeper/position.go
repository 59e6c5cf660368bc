package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"
)

// tailSize is how much of the delivered output is remembered, to find the
// place again in a log whose head has been rotated away.
const tailSize = 4 << 10

// A position file holds two slots a stream. A slot is written while the other
// holds the state before, so that a process killed in the middle leaves one
// whole. The file is mapped: what was stored survives the process, and nothing
// is ever truncated.
const (
	slotHead   = 32
	slotSize   = slotHead + tailSize
	fileSize   = int(streams) * 2 * slotSize
	slotMagic  = 0x77617264 // "ward"
	offMagic   = 0
	offSum     = 4
	offSeq     = 8
	offBytes   = 16
	offTailLen = 24
)

// Position is how far one stream has been delivered.
type Position struct {
	// Delivered is the number of bytes that left for the log FIFO, counted
	// from the start of the process, losses included.
	Delivered int64
	// Tail is the end of what was delivered, at most tailSize bytes.
	Tail []byte
}

// ReadPosition reads a position file. A stream without a whole slot has
// delivered nothing.
func ReadPosition(path string) ([2]Position, error) {
	var out [2]Position
	b, err := os.ReadFile(path)
	if err != nil {
		return out, err
	}
	if len(b) != fileSize {
		return out, fmt.Errorf("%s: %d bytes, want %d", path, len(b), fileSize)
	}
	for s := range streams {
		out[s], _ = newest(b, s)
	}
	return out, nil
}

// slot is the n-th slot of a stream.
func slot(b []byte, s stream, n uint64) []byte {
	at := (int(s)*2 + int(n%2)) * slotSize
	return b[at : at+slotSize]
}

// newest reads the latest whole slot of a stream and its sequence number.
func newest(b []byte, s stream) (Position, uint64) {
	var p Position
	var best uint64
	for n := range uint64(2) {
		x := slot(b, s, n)
		seq := binary.LittleEndian.Uint64(x[offSeq:])
		size := binary.LittleEndian.Uint32(x[offTailLen:])
		if binary.LittleEndian.Uint32(x[offMagic:]) != slotMagic || size > tailSize || seq < best ||
			binary.LittleEndian.Uint32(x[offSum:]) != checksum(x, int(size)) {
			continue
		}
		best = seq
		p = Position{
			Delivered: int64(binary.LittleEndian.Uint64(x[offBytes:])),
			Tail:      append([]byte(nil), x[slotHead:slotHead+int(size)]...),
		}
	}
	return p, best
}

func checksum(x []byte, tail int) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(x[offSeq:slotHead]), crc32.IEEETable, x[slotHead:slotHead+tail])
}

// positions is an open position file. Each stream is advanced by one goroutine.
type positions struct {
	mem   []byte
	state [streams]Position
	seq   [streams]uint64
}

// openPositions opens a position file and goes on where it ends; a missing one
// is made.
func openPositions(path string) (*positions, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(fileSize)); err != nil { // grows a new file; never shrinks one
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, fileSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	p := &positions{mem: mem}
	for s := range streams {
		p.state[s], p.seq[s] = newest(mem, s)
	}
	return p, nil
}

// advance notes that b has been delivered.
func (p *positions) advance(s stream, b []byte) {
	st := &p.state[s]
	st.Delivered += int64(len(b))
	if len(b) >= tailSize {
		st.Tail = append(st.Tail[:0], b[len(b)-tailSize:]...)
	} else {
		if over := len(st.Tail) + len(b) - tailSize; over > 0 {
			st.Tail = append(st.Tail[:0], st.Tail[over:]...)
		}
		st.Tail = append(st.Tail, b...)
	}
	p.store(s)
}

// lose notes that n bytes will never be delivered.
func (p *positions) lose(s stream, n int64) {
	p.state[s].Delivered += n
	p.store(s)
}

func (p *positions) store(s stream) {
	p.seq[s]++
	st := p.state[s]
	x := slot(p.mem, s, p.seq[s])
	binary.LittleEndian.PutUint32(x[offMagic:], 0)
	binary.LittleEndian.PutUint64(x[offSeq:], p.seq[s])
	binary.LittleEndian.PutUint64(x[offBytes:], uint64(st.Delivered))
	binary.LittleEndian.PutUint32(x[offTailLen:], uint32(len(st.Tail)))
	copy(x[slotHead:], st.Tail)
	binary.LittleEndian.PutUint32(x[offSum:], checksum(x, len(st.Tail)))
	binary.LittleEndian.PutUint32(x[offMagic:], slotMagic)
}

func (p *positions) close() error {
	if p.mem == nil {
		return errors.New("positions: closed twice")
	}
	err := unix.Munmap(p.mem)
	p.mem = nil
	return err
}
