package broker

import (
	"net"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

// listeners are the addresses of a broker, whether it leads or stands by.
type listeners struct {
	members, operators net.Listener
	probes             net.Listener // nil: there are no metrics and probes
}

// openListeners opens the addresses of a broker. Close them afterwards. Errors: Invalid with the
// flag of an address; those of the socket's folder.
func openListeners(o Options) (*listeners, error) {
	var l listeners
	var err error
	if l.members, err = listen("--listen", o.Listen); err == nil && o.MetricsAddress != "" {
		l.probes, err = listen("--metrics-bind-address", o.MetricsAddress)
	}
	if err == nil {
		l.operators, err = server.ListenSocket(o.Socket)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return &l, nil
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, api.Invalid(flag, "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	return l, nil
}

// close closes those that are open.
func (l *listeners) close() {
	for _, listener := range []net.Listener{l.members, l.operators, l.probes} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}
