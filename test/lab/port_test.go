package lab

import (
	"fmt"
	"net"
	"testing"
)

func TestReservedPortIsNobodyElses(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", p.number)
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Error("another listens on a reserved port")
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("a reserved port accepts, as if its server lived")
	}
	p.release()
	p.release()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("a released port is not free: %v", err)
	}
	l.Close()
}
