package wire

import (
	"context"
	"errors"
	"math"
	"os"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// APIVersion is the driver plugin API version. Every client from 1.4 to 2.0 knows this one
// and no other, so features cannot be negotiated.
const APIVersion = "v0.1.0"

// The names under which a client dispenses the two services.
const (
	PluginBase   = "base"
	PluginDriver = "driver"
)

// MaxMessageBytes bounds one received message on either side. gRPC's own limit is 4 MiB, which
// a task with a large environment exceeds.
const MaxMessageBytes = math.MaxInt32

// Handshake is what a client and a plugin must agree on before they talk.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

// LaunchedByClient reports whether this process was started by a Nomad client as a plugin.
func LaunchedByClient() bool {
	return os.Getenv(Handshake.MagicCookieKey) == Handshake.MagicCookieValue
}

// Server is a task driver plugin: the base service and the driver service.
type Server interface {
	basepb.BasePluginServer
	driverpb.DriverServer
}

// Client holds the client ends of both services of one plugin.
type Client struct {
	Base   basepb.BasePluginClient
	Driver driverpb.DriverClient
}

// NewClient returns the client ends over an established connection.
func NewClient(conn grpc.ClientConnInterface) Client {
	return Client{Base: basepb.NewBasePluginClient(conn), Driver: driverpb.NewDriverClient(conn)}
}

// ClientPlugins is the plugin set of a client: both names dispense a [Client].
func ClientPlugins() goplugin.PluginSet {
	return goplugin.PluginSet{PluginBase: &endpoint{}, PluginDriver: &endpoint{}}
}

// endpoint registers one service on the plugin side and makes a Client on the other. Each
// service has an endpoint of its own because gRPC refuses a second registration.
type endpoint struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(grpc.ServiceRegistrar)
}

var _ goplugin.GRPCPlugin = (*endpoint)(nil)

func (e *endpoint) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if e.register == nil {
		return errors.New("wire: a client's plugin set cannot serve")
	}
	e.register(s)
	return nil
}

func (e *endpoint) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// serverPlugins is the plugin set of a plugin: one name for each service.
func serverPlugins(s Server) goplugin.PluginSet {
	return goplugin.PluginSet{
		PluginBase:   &endpoint{register: func(r grpc.ServiceRegistrar) { basepb.RegisterBasePluginServer(r, s) }},
		PluginDriver: &endpoint{register: func(r grpc.ServiceRegistrar) { driverpb.RegisterDriverServer(r, s) }},
	}
}
