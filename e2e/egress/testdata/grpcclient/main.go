// Command grpcclient makes one gRPC call from inside a sandbox, as a program
// that knows nothing of where it runs:
//
//	grpcclient HOST:PORT   asks the standard health service, and prints its answer
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run(target string) error {
	c, err := grpc.NewClient(target, grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := health.NewHealthClient(c).Check(ctx, &health.HealthCheckRequest{Service: "demo"})
	if err != nil {
		return err
	}
	fmt.Println("status:", answer.GetStatus())
	return nil
}
