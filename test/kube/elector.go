// elector - competes for a Lease with client-go's own leader election, the way a router written in Go would.
//
// It prints a line of JSON for each event and ends on SIGTERM or SIGINT, giving the Lease back if it has it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type event struct {
	Time     string `json:"time"`
	Event    string `json:"event"`
	Identity string `json:"identity"`
	Leader   string `json:"leader,omitempty"`
}

type options struct {
	kubeconfig, namespace, name, identity     string
	leaseDuration, renewDeadline, retryPeriod time.Duration
}

func parseElector(flags *flag.FlagSet) options {
	var o options
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&o.namespace, "namespace", "default", "the Lease's namespace")
	flags.StringVar(&o.name, "name", "", "the Lease's name")
	flags.StringVar(&o.identity, "identity", "", "who this is: the Lease's holderIdentity")
	flags.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "how long others respect a silent leader")
	flags.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "how long a leader tries to renew")
	flags.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "the pause between two attempts")
	_ = flags.Parse(os.Args[1:]) // ends the program on an error
	return o
}

// runElector is the program: it returns the exit status.
func runElector() int {
	flags := flag.NewFlagSet("elector", flag.ExitOnError) // the global one has the flags of all that is linked in
	o := parseElector(flags)
	if o.name == "" || o.identity == "" || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "elector: --name and --identity are needed, and nothing but flags")
		return 2
	}
	if err := compete(o); err != nil {
		fmt.Fprintln(os.Stderr, "elector:", err)
		return 1
	}
	return 0
}

func compete(o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	// The callbacks run on goroutines of their own.
	var mutex sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(name, leader string) {
		mutex.Lock()
		defer mutex.Unlock()
		_ = out.Encode(event{time.Now().UTC().Format(time.RFC3339Nano), name, o.identity, leader})
	}

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
		},
		LeaseDuration:   o.leaseDuration,
		RenewDeadline:   o.renewDeadline,
		RetryPeriod:     o.retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("started leading", "") },
			OnStoppedLeading: func() { say("stopped leading", "") },
			OnNewLeader:      func(leader string) { say("new leader", leader) },
		},
	})
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// Run returns when leadership is lost, too; a router would compete again, and so does this.
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}
