package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// chaos drives a world at random and checks the invariants after every step.
type chaos struct {
	*world
	rnd     *rand.Rand
	origins []Origin
	readers map[int]mapping // pid of a reader on a mirror
	foreign string          // picture of what is not ours

	obstacles map[string]bool // directories nested too deeply to be removed

	violations []string
	freeSince  map[Key]time.Time // since when a flow may go, by the facts
	seen       int               // removals looked at
	steps      int
}

// mapping is what a reader has mapped. After a rebuild, which happens readers or
// not, it is the old file.
type mapping struct {
	Key
	inode uint64
}

func newChaos(t testing.TB, seed uint64) *chaos {
	c := &chaos{
		world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 1)),
		readers: map[int]mapping{}, freeSince: map[Key]time.Time{}, obstacles: map[string]bool{},
	}
	c.set.IdleGrace, c.set.Grace, c.nmos = 20*time.Second, 5*time.Second, true
	for i := range 6 {
		o := origin("data", i+1)
		o.DomainID = "domain-" + strconv.Itoa(i/2)
		c.origins = append(c.origins, o)
	}
	theirs, _ := definition("theirs", testSource, "node-c")
	for name, files := range map[string]map[string]string{
		"local":              {definitionFile: `{"id":"local","label":"l"}`, "x.mxl-flow/data": "x"},
		dirPrefix + "theirs": {definitionFile: string(theirs), "y.mxl-flow/data": "y"},
		"not a domain":       {"keep": "z"},
	} {
		for file, text := range files {
			path := filepath.Join(c.root, name, file)
			mkdirAll(t, filepath.Dir(path))
			write(t, path, text)
		}
	}
	c.foreign = c.notOurs()
	return c
}

// notOurs is a picture of everything below the root that is not ours.
func (c *chaos) notOurs() string {
	text := ""
	for _, name := range []string{"local", dirPrefix + "theirs", "not a domain"} {
		text += tree(c.t, filepath.Join(c.root, name))
	}
	return text
}

func (c *chaos) violate(format string, args ...any) {
	text := fmt.Sprintf("step %d, %v: ", c.steps, c.now.Sub(time.Unix(worldEpoch, 0))) + fmt.Sprintf(format, args...)
	c.violations = append(c.violations, text)
	c.t.Error(text)
}

// step changes something, lets some time pass and looks.
func (c *chaos) step() {
	c.steps++
	c.change()
	for range 1 + c.rnd.IntN(8) {
		c.now = c.now.Add(time.Duration(100+c.rnd.IntN(300)) * time.Millisecond)
		c.watchPass()
	}
	if got := c.notOurs(); got != c.foreign {
		c.violate("what is not ours was touched:\n%s\nwas\n%s", got, c.foreign)
		c.foreign = got
	}
}

// watchPass is a pass with what may not happen in it.
func (c *chaos) watchPass() {
	mapped := map[Key]bool{}
	for _, m := range c.readers {
		mapped[m.Key] = mapped[m.Key] || m.inode == c.inode(m.Key)
	}
	inodes := map[Key]uint64{}
	for _, o := range c.origins {
		inodes[o.Key] = c.inode(o.Key)
	}
	complete := exists(filepath.Join(c.proc.path, "1"))
	obstructed := map[string]string{}
	for dir := range c.obstacles {
		obstructed[dir] = tree(c.t, dir)
	}
	c.pass()
	for dir, before := range obstructed {
		if !exists(dir) || tree(c.t, dir) != before {
			c.violate("%s was removed in part", dir)
		}
	}
	for _, done := range c.removed[c.seen:] {
		for _, k := range done.Flows {
			c.judge(done, k, mapped[k], complete)
		}
	}
	c.seen = len(c.removed)
	for _, o := range c.origins {
		if now := c.inode(o.Key); inodes[o.Key] != 0 && now != inodes[o.Key] && now != 0 && !c.mayRebuild(o.Key) {
			c.violate("%s was rebuilt from %d to %d without a reason", o.Key, inodes[o.Key], now)
		}
	}
	c.overdue()
}

// judge looks at one removal.
func (c *chaos) judge(done worldRemoval, k Key, mapped, complete bool) {
	strict := done.Reason != OriginGone && done.Reason != NoDemand && done.Reason != Excluded
	switch {
	case mapped && done.Reason != OriginGone:
		c.violate("%s was removed for %s under a reader", k, done.Reason)
	case strict && !complete:
		c.violate("%s was removed for %s without complete sight", k, done.Reason)
	case c.now.Sub(c.started) < StartGuard:
		c.violate("%s was removed for %s within 30 s of the start", k, done.Reason)
	case c.set.DryRun:
		c.violate("%s was removed for %s in a dry run", k, done.Reason)
	case !c.registry && done.Reason != SameNode && done.Reason != Excluded:
		c.violate("%s was removed for %s while the registry was silent", k, done.Reason)
	case c.demand[k] && (done.Reason == OriginGone || done.Reason == NoDemand || done.Reason == IdleLong):
		c.violate("%s was removed for %s while it was wanted", k, done.Reason)
	}
	if done.Reason == OriginMissing || done.Reason == Orphan {
		for host, p := range c.peers {
			if _, lists := p.seen[k]; p.known.Up && lists {
				c.violate("%s was removed for %s while %s lists it", k, done.Reason, host)
			}
		}
	}
}

// mayRebuild says whether an event of the last pass told of a rebuild of the
// flow, or one is due for its definition.
func (c *chaos) mayRebuild(k Key) bool {
	for _, p := range c.peers {
		if f, ok := p.seen[k]; ok {
			if text, err := os.ReadFile(flowPath(c.room, k, "flow_def.json")); err == nil && string(text) == string(f.FlowDef) {
				return true
			}
		}
	}
	return false
}

// overdue finds mirrors whose origin nobody has, wanted or not, and that stay for
// longer than the grace plus the checks that come before a removal.
func (c *chaos) overdue() {
	const checks = 2*ReaderCheckEvery + 6*time.Second // reader check, two polls
	quiet := c.registry && !c.set.DryRun && exists(filepath.Join(c.proc.path, "1")) && c.now.Sub(c.started) > StartGuard
	mapped := map[Key]bool{}
	for _, m := range c.readers {
		mapped[m.Key] = true
	}
	for _, o := range c.origins {
		k := o.Key
		listed := false
		for _, p := range c.peers {
			_, seen := p.seen[k]
			listed = listed || seen || !p.up || !p.known.Settled
		}
		if !quiet || listed || mapped[k] || len(c.obstacles) > 0 || c.inode(k) == 0 {
			delete(c.freeSince, k)
			continue
		}
		if c.freeSince[k].IsZero() {
			c.freeSince[k] = c.now
		}
		if stays := c.now.Sub(c.freeSince[k]); stays > c.set.IdleGrace+checks {
			c.violate("%s stays for %v after it may go: %+v", k, stays, c.step1(k))
			delete(c.freeSince, k)
		}
	}
}

func (c *chaos) step1(k Key) string {
	s := c.world.step(k)
	return fmt.Sprintf("state %s, do %d, reason %s, guard %s, missing %v, health %+v", s.State, s.Do, s.Reason, s.Guard, s.Missing, s.Health)
}

// quiet lets everything answer for as long as any removal may take.
func (c *chaos) quiet() {
	c.steps++
	for _, p := range c.peers {
		p.up, p.link, p.scanned = true, true, true
	}
	c.registry, c.set.DryRun = true, false
	c.obstruct(Origin{Key: Key{DomainID: "nothing"}})
	c.proc.add(1, "init", "")
	for end := c.now.Add(StartGuard + 2*c.set.IdleGrace); c.now.Before(end); {
		c.now = c.now.Add(400 * time.Millisecond)
		c.watchPass()
	}
}

// change changes one thing.
func (c *chaos) change() {
	o := c.origins[c.rnd.IntN(len(c.origins))]
	host := []string{testSource, "node-c"}[c.rnd.IntN(2)]
	p := c.peer(host)
	switch c.rnd.IntN(26) {
	case 0, 1, 2, 3, 4:
		p.offer(o)
	case 5, 6:
		delete(p.flows, o.Key)
	case 7:
		c.dropDomain(p, o.DomainID)
	case 8, 9:
		if f := p.flows[o.Key]; f != nil {
			f.active = !f.active
			f.live = f.active
		}
	case 10:
		if f := p.flows[o.Key]; f != nil {
			rate := []int{25, 50}[c.rnd.IntN(2)]
			f.Origin = o.edit("grain_rate", map[string]int{"numerator": rate, "denominator": 1})
		}
	case 11:
		p.up = !p.up
	case 12:
		p.link = !p.link
	case 13:
		p.boot = host + strconv.Itoa(c.rnd.IntN(1e6))
		p.scanned = c.rnd.IntN(2) == 0
	case 14:
		p.scanned = true
	case 15, 16:
		if c.demand[o.Key] {
			delete(c.demand, o.Key)
		} else {
			c.demand[o.Key] = true
		}
	case 17, 18:
		for k := range c.freeSince { // one that is about to go
			if c.rnd.IntN(2) == 0 {
				o.Key = k
			}
		}
		if c.inode(o.Key) != 0 {
			pid := 1000 + c.rnd.IntN(5)
			c.read(o.Key, pid)
			c.readers[pid] = mapping{o.Key, c.inode(o.Key)}
		}
	case 19, 20:
		for pid := range c.readers {
			c.proc.remove(pid)
			delete(c.readers, pid)
			break
		}
	case 21:
		c.registry = c.rnd.IntN(8) != 0
	case 22:
		if exists(filepath.Join(c.proc.path, "1")) && c.rnd.IntN(6) == 0 {
			c.proc.remove(1)
		} else {
			c.proc.add(1, "init", "")
		}
	case 23:
		if c.rnd.IntN(6) == 0 {
			c.crashAndStart()
		}
	case 24:
		c.rareChange(o)
	case 25:
		c.now = c.now.Add(time.Duration(c.rnd.IntN(30)) * time.Second)
	}
}

func (c *chaos) dropDomain(p *worldPeer, id string) {
	delete(p.domains, id)
	for k := range p.flows {
		if k.DomainID == id {
			delete(p.flows, k)
		}
	}
}

func (c *chaos) rareChange(o Origin) {
	switch c.rnd.IntN(8) {
	case 6, 7:
		c.obstruct(o)
	case 0:
		c.set.DryRun = c.rnd.IntN(4) == 0
	case 1:
		c.set.Eager = !c.set.Eager
	case 2:
		c.local = map[string]bool{}
		if c.rnd.IntN(2) == 0 {
			c.local[o.DomainID] = true
		}
	case 3:
		c.set.Filter.ExcludeFlows = nil
		if c.rnd.IntN(2) == 0 {
			c.set.Filter.ExcludeFlows = []string{o.FlowID.String()}
		}
	case 4:
		c.free = []uint64{1 << 40, 100 * mebibyte}[c.rnd.IntN(2)]
	case 5:
		if c.inode(o.Key) != 0 {
			c.books.Removed(o.Key, TestHook)
			switch _, err := c.room.RebuildFlow(c.t.Context(), o.Key); {
			case errors.Is(err, ErrObstacle) && len(c.obstacles) > 0:
				c.books.NotRemoved(o.Key)
			case err != nil && c.free > mebibyte<<10:
				c.violate("rebuild of %s: %v", o.Key, err)
			}
		}
	}
}

// obstruct puts something that cannot be removed into a flow or a domain, or
// takes all such things away.
func (c *chaos) obstruct(o Origin) {
	for dir := range c.obstacles {
		if err := os.RemoveAll(dir); err != nil {
			c.t.Fatal(err)
		}
		delete(c.obstacles, dir)
	}
	if c.rnd.IntN(2) == 0 || c.inode(o.Key) == 0 {
		return
	}
	dir := flowPath(c.room, o.Key, "theirs")
	if c.rnd.IntN(2) == 0 {
		dir = filepath.Join(c.room.domainPath(o.DomainID), "theirs")
	}
	mkdirAll(c.t, filepath.Join(dir, "2/3/4/5/6"))
	c.obstacles[dir] = true
}

// crashAndStart kills the agent and starts it again: what it has on disk stays
// as it is, half-made things go.
func (c *chaos) crashAndStart() {
	before := map[Key]uint64{}
	for _, o := range c.origins {
		before[o.Key] = c.inode(o.Key)
	}
	c.crash()
	if c.rnd.IntN(2) == 0 {
		for _, dir := range list(c.t, c.root) {
			if exists(filepath.Join(c.root, dir, definitionFile)) && dir != "local" && dir != dirPrefix+"theirs" {
				mkdirAll(c.t, filepath.Join(c.root, dir, halfMade+"XXXXXXXXXXcrash1", "grains"))
			}
		}
		mkdirAll(c.t, filepath.Join(c.root, asidePrefix(testHost)+"7-7"))
	}
	c.start()
	for _, o := range c.origins {
		if now := c.inode(o.Key); now != before[o.Key] {
			c.violate("%s had inode %d before a crash and has %d", o.Key, before[o.Key], now)
		}
	}
	half, _ := filepath.Glob(filepath.Join(c.root, "*", halfMade+"*"))
	aside, _ := filepath.Glob(filepath.Join(c.root, asidePrefix(testHost)+"*"))
	if len(half)+len(aside) != 0 {
		c.violate("half-made directories stayed: %v %v", half, aside)
	}
}

// TestChaos drives random origins, peers, registries, readers, clocks and
// crashes against a real room. MIRROR_CHAOS_STEPS sets the number of steps,
// MIRROR_CHAOS_SEED the seed, MIRROR_CHAOS_RESULT a file for the result.
func TestChaos(t *testing.T) {
	steps, seed := 400, uint64(1)
	if text := os.Getenv("MIRROR_CHAOS_STEPS"); text != "" {
		var err error
		if steps, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("MIRROR_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c := newChaos(t, seed)
	for c.steps < steps && len(c.violations) < 20 {
		if c.step(); c.steps%100 == 0 {
			c.quiet()
		}
	}
	c.crash()
	reasons := map[Reason]int{}
	for _, done := range c.removed {
		reasons[done.Reason]++
	}
	t.Logf("seed %d: %d steps, %d violations, removals %v, %d refused at the last moment", seed, c.steps, len(c.violations), reasons, c.refused)
	if path := os.Getenv("MIRROR_CHAOS_RESULT"); path != "" {
		text, err := json.Marshal(map[string]int{"steps": c.steps, "violations": len(c.violations), "removals": len(c.removed)})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
