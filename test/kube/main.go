// kube - the parts of Kubernetes that the tests run, in one program: one build, one link, one file in the cache.
//
// The name it is called by says which part to be (the cache has links to it), or else the first argument:
//
//	kube kube-apiserver --etcd-servers=…
//	kube kube-controller-manager --kubeconfig=…
//	kube elector --kubeconfig=… --namespace=… --name=… --identity=…
//
// It uses only what Kubernetes 1.20 and 1.34 both have: scripts/kube-binaries builds it with either.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// execute is that of a command of Kubernetes; it has printed its error itself.
func execute(run func() error) int {
	if run() != nil {
		return 1
	}
	return 0
}

var parts = map[string]func() int{
	"kube-apiserver":          func() int { return execute(apiserver.NewAPIServerCommand().Execute) },
	"kube-controller-manager": func() int { return execute(controllers.NewControllerManagerCommand().Execute) },
	"elector":                 runElector,
}

func main() {
	run, found := parts[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		run, found = parts[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if !found {
		fmt.Fprintln(os.Stderr, "usage: kube kube-apiserver|kube-controller-manager|elector [FLAG]...")
		os.Exit(2)
	}
	os.Exit(run())
}
