package main

import (
	"os"
	"testing"
	"time"
)

func TestGrowthLeavesTheWarmUpOut(t *testing.T) {
	var looks []look
	for at := range 100 {
		l := look{at: time.Duration(at) * time.Second, rss: 40_000, threads: 20, lines: 100}
		if at < 30 {
			l.rss, l.lines, l.threads = 1000*float64(at), float64(at), float64(at)
		}
		if at%5 == 0 {
			l.goes = &goes{live: float64(at)}
		}
		looks = append(looks, l)
	}
	g := growthOf("node-a", looks, 30*time.Second)
	for _, key := range []string{"rss", "threads", "goroutines"} {
		if s := g.Slopes[figureOf(t, key)]; s != (slope{}) {
			t.Errorf("%s: %+v", key, s)
		}
	}
	if s := g.Slopes[figureOf(t, "heap_live")]; s.PerMinute < 59.9 || s.PerMinute > 60.1 {
		t.Errorf("a figure of every fifth look: %+v", s)
	}
	if g.LinesPerMinute != 0 || g.Lines != (slope{}) {
		t.Errorf("lines: %+v", g)
	}
	if g := growthOf("node-a", nil, 0); g != (growth{Host: "node-a"}) {
		t.Errorf("no look: %+v", g)
	}
}

func TestLookAt(t *testing.T) {
	l, err := lookAt(os.Getpid(), []byte(`{"event":"peer_up"}`+"\n"+`{"event":"fabric_thread_stall"}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if l.anon < 500 || l.anon > l.rss+1024 || l.file <= 0 || l.threads < 1 || l.descriptors < 3 || l.lines != 1 || l.stalls != 1 {
		t.Errorf("%+v", l)
	}
	if _, err := lookAt(-1, nil); err == nil {
		t.Error("a process that is not")
	}
}

func TestPageOfALook(t *testing.T) {
	page := "# HELP go_goroutines n\ngo_goroutines 87\ngo_memstats_heap_inuse_bytes 8.388608e+06\ngo_memstats_heap_idle_bytes 4.194304e+06\n" +
		"go_memstats_heap_released_bytes 2.097152e+06\ngo_memstats_stack_inuse_bytes 1.048576e+06\ngo_sched_gomaxprocs_threads 18\n"
	const live = "go_gc_heap_live_bytes 3.145728e+06\n"
	l := look{anon: 20 * 1024, threads: 30}
	if err := l.ask([]byte(page + live)); err != nil || l.stacks != 1024 ||
		*l.goes != (goes{live: 3072, beyond: 9 * 1024, goroutines: 87, ceiling: 18*64*8 + 87*64 + 30*32}) {
		t.Errorf("%+v, %+v, %v", l, l.goes, err)
	}
	if err := new(look).ask([]byte(page)); err == nil {
		t.Error("a page without the live heap")
	}
}
