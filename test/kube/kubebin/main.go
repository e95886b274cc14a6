// Command kubebin is a real Kubernetes in one binary: etcd, API server,
// controller manager, scheduler and kubelet, each named by the first argument.
// The tests of the kube driver run against it. It is a module of its own, so
// that nobody who builds Valence builds it.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	components := map[string]func() *cobra.Command{
		"etcd":               etcd,
		"apiserver":          apiserver.NewAPIServerCommand,
		"controller-manager": controllers.NewControllerManagerCommand,
		"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		// Any other context than the background one makes the kubelet's command panic.
		"kubelet": func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	var name string
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	component, ok := components[name]
	if !ok {
		names := slices.Sorted(maps.Keys(components))
		fmt.Fprintf(os.Stderr, "usage: kubebin %s [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(component()))
}
