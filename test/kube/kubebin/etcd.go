package main

import (
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcd serves one member without peers, on loopback and without TLS, until it
// is told to stop. It prints "etcd ready" when it answers.
func etcd() *cobra.Command {
	config := embed.NewConfig()
	var port int
	command := &cobra.Command{
		Use:          "etcd",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			listen := func(port int) []url.URL {
				return []url.URL{{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}}
			}
			config.ListenClientUrls, config.AdvertiseClientUrls = listen(port), listen(port)
			config.ListenPeerUrls, config.AdvertisePeerUrls = listen(port+1), listen(port+1)
			config.InitialCluster = config.InitialClusterFromName(config.Name)
			config.LogLevel = "warn"
			config.QuotaBackendBytes = 8 << 30
			config.AutoCompactionMode, config.AutoCompactionRetention = "periodic", "5m"

			stop, cancel := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer cancel()
			server, err := embed.StartEtcd(config)
			if err != nil {
				return err
			}
			defer server.Close()
			ready := server.Server.ReadyNotify()
			for {
				select {
				case <-ready:
					fmt.Println("etcd ready")
					ready = nil
				case err := <-server.Err():
					return errors.Join(errors.New("etcd stopped"), err)
				case <-stop.Done():
					return nil
				}
			}
		},
	}
	command.Flags().StringVar(&config.Dir, "data-dir", "etcd", "folder of the database")
	command.Flags().IntVar(&port, "port", 2379, "port for clients on loopback; the next one is for peers")
	command.Flags().BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk: for tests only")
	return command
}
