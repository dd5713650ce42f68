// Package plugintest serves resource plugins as those for Liqo 0.5 to 0.10 do, in each of their dialects, for tests.
package plugintest

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Dialect is the minor version of Liqo that introduced one.
type Dialect string

// The dialects.
const (
	V05 Dialect = "0.5"
	V06 Dialect = "0.6"
	V09 Dialect = "0.9"
)

// Dialects are all.
var Dialects = []Dialect{V05, V06, V09}

// Server is a plugin.
type Server struct {
	Address string

	dialect  Dialect
	messages protoreflect.MessageDescriptors
	server   *grpc.Server

	mu          sync.Mutex
	allowed     map[string]map[string]string // by consumer
	raw         []byte                       // answered instead, if not nil
	deaf, mute  bool
	removed     []string
	subscribers map[chan string]bool
}

// Start serves a plugin that allows nobody anything yet. At address, or a port of its choice where that is empty.
func Start(t testing.TB, dialect Dialect, address string) *Server {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	var l net.Listener
	var err error
	for range 50 { // one that was just left may be taken still
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := protodesc.NewFile(files[dialect], nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Address: l.Addr().String(), dialect: dialect, messages: file.Messages(), server: grpc.NewServer(),
		allowed: map[string]map[string]string{}, subscribers: map[chan string]bool{},
	}
	s.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "resource_reader", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "ReadResources", Handler: s.unary(words[dialect].read, s.read)},
			{MethodName: "RemoveCluster", Handler: s.unary(words[dialect].remove, s.remove)},
		},
		Streams: []grpc.StreamDesc{{StreamName: "Subscribe", ServerStreams: true, Handler: s.subscribe}},
	}, s)
	var served sync.WaitGroup
	served.Go(func() { _ = s.server.Serve(l) })
	t.Cleanup(func() { s.Stop(); served.Wait() })
	return s
}

// Stop ends it, and whatever it is asked.
func (s *Server) Stop() { s.server.Stop() }

// Allow says what a consumer may have from now on, as quantities are written, and tells the subscribers of it.
func (s *Server) Allow(consumer string, amounts map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed[consumer] = maps.Clone(amounts)
	for c := range s.subscribers {
		select {
		case c <- consumer:
		default:
		}
	}
}

// Answer makes it answer with these bytes, whatever they are; nil: as it should.
func (s *Server) Answer(raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = raw
}

// Deafen makes it not answer at all.
func (s *Server) Deafen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
}

// Mute makes it tell nobody of changes, as one that does not know how to.
func (s *Server) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = true
}

// Removed are the consumers whose end it was told of.
func (s *Server) Removed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.removed)
}

// Subscribers is how many listen.
func (s *Server) Subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscribers)
}

func (s *Server) unary(request string, answer func(ctx context.Context, cluster string) (any, error)) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := s.message(request)
		if err := read(in); err != nil {
			return nil, err
		}
		return answer(ctx, in.Get(in.Descriptor().Fields().ByNumber(1)).String())
	}
}

func (s *Server) read(ctx context.Context, cluster string) (any, error) {
	s.mu.Lock()
	deaf, raw := s.deaf, s.raw
	amounts, known := s.allowed[cluster]
	amounts = maps.Clone(amounts)
	s.mu.Unlock()
	switch {
	case deaf:
		<-ctx.Done()
		return nil, ctx.Err()
	case raw != nil: // unknown fields are written as they were read
		out := s.message(words[s.dialect].none)
		out.SetUnknown(raw)
		return out, nil
	case !known:
		return nil, status.Errorf(codes.Unknown, "no contract with %s", cluster)
	}
	return s.list(amounts), nil
}

// list says amounts in the dialect; where there are pools, each resource in one of its own.
func (s *Server) list(amounts map[string]string) proto.Message {
	out := s.message(words[s.dialect].list)
	into := out
	for name, amount := range amounts {
		if s.dialect == V09 {
			into = s.message("ResourceList")
			fields := into.Descriptor().Fields()
			into.Set(fields.ByNumber(2), protoreflect.ValueOfString("pool-"+name))
		}
		field := into.Descriptor().Fields().ByNumber(1)
		value := protoreflect.ValueOfString(amount)
		if s.dialect != V05 {
			quantity := s.message("Quantity")
			quantity.Set(quantity.Descriptor().Fields().ByNumber(1), value)
			value = protoreflect.ValueOfMessage(quantity)
		}
		into.Mutable(field).Map().Set(protoreflect.ValueOfString(name).MapKey(), value)
		if s.dialect == V09 {
			out.Mutable(out.Descriptor().Fields().ByNumber(1)).List().Append(protoreflect.ValueOfMessage(into))
		}
	}
	return out
}

func (s *Server) remove(_ context.Context, cluster string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = append(s.removed, cluster)
	return s.message(words[s.dialect].none), nil
}

func (s *Server) subscribe(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(s.message(words[s.dialect].subscribe)); err != nil {
		return err
	}
	changed := make(chan string, 16)
	s.mu.Lock()
	mute := s.mute
	s.subscribers[changed] = !mute
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, changed)
	}()
	if mute {
		return status.Error(codes.Unimplemented, "method Subscribe not implemented")
	}
	for {
		select {
		case consumer := <-changed:
			news := s.message(words[s.dialect].news)
			if fields := news.Descriptor().Fields(); fields.Len() > 0 {
				news.Set(fields.ByNumber(1), protoreflect.ValueOfString(consumer))
			}
			if err := stream.SendMsg(news); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s *Server) message(name string) *dynamicpb.Message {
	return dynamicpb.NewMessage(s.messages.ByName(protoreflect.Name(name)))
}

// words are what each dialect calls its messages.
var words = map[Dialect]struct{ read, list, remove, none, subscribe, news string }{
	V05: {"ReadRequest", "ReadResponse", "RemoveRequest", "RemoveResponse", "SubscribeRequest", "UpdateNotification"},
	V06: {"ClusterIdentity", "ResourceList", "ClusterIdentity", "Empty", "Empty", "ClusterIdentity"},
	V09: {"ClusterIdentity", "PoolResourceList", "ClusterIdentity", "Empty", "Empty", "ClusterIdentity"},
}

// files are their .proto files; Quantity, which is Kubernetes', is beside the others here.
var files = map[Dialect]*descriptorpb.FileDescriptorProto{
	V05: file(
		message("ReadRequest", text("originator", 1)), message("ReadResponse", entries("resources", 1, ".ReadResponse.ResourcesEntry")).with(pair("")),
		message("RemoveRequest", text("cluster", 1)), message("RemoveResponse"), message("SubscribeRequest"), message("UpdateNotification"),
	),
	V06: file(
		message("ClusterIdentity", text("clusterID", 1)), message("Empty"), message("Quantity", text("string", 1)),
		message("ResourceList", entries("resources", 1, ".ResourceList.ResourcesEntry")).with(pair(".Quantity")),
	),
	V09: file(
		message("ClusterIdentity", text("clusterID", 1)), message("Empty"), message("Quantity", text("string", 1)),
		message("ResourceList", entries("resources", 1, ".ResourceList.ResourcesEntry"), text("pool_name", 2), text("pool_prefix", 3)).with(pair(".Quantity")),
		message("PoolResourceList", entries("resource_lists", 1, ".ResourceList")),
	),
}

type declaration struct{ *descriptorpb.DescriptorProto }

func (d declaration) with(nested declaration) declaration {
	d.NestedType = append(d.NestedType, nested.DescriptorProto)
	return d
}

func file(messages ...declaration) *descriptorpb.FileDescriptorProto {
	f := &descriptorpb.FileDescriptorProto{Name: proto.String("resource-reader.proto"), Syntax: proto.String("proto3")}
	for _, m := range messages {
		f.MessageType = append(f.MessageType, m.DescriptorProto)
	}
	return f
}

func message(name string, fields ...*descriptorpb.FieldDescriptorProto) declaration {
	return declaration{&descriptorpb.DescriptorProto{Name: proto.String(name), Field: fields}}
}

// pair is the entry of a map from texts to messages or, where of is empty, to texts.
func pair(of string) declaration {
	value := text("value", 2)
	if of != "" {
		value = entries("value", 2, of)
		value.Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	}
	m := message("ResourcesEntry", text("key", 1), value)
	m.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	return m
}

func text(name string, number int32) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(number),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
	}
}

func entries(name string, number int32, of string) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(number), TypeName: proto.String(of),
		Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
	}
}
