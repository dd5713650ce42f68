package cli

import (
	"os"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// ways are how a command may reach its cluster: what the flags and the environment name, and what there is.
type ways struct {
	flags      bool   // --context or --kubeconfig
	server     string // --server or BOURSE_SERVER
	kubeconfig string // KUBECONFIG
	socket     string // where an agent of this machine listens, if one does
	current    string // the current context of the kubeconfig in the home folder
	unread     error  // why that kubeconfig cannot be read
}

// way is how a command reaches its cluster.
type way struct {
	asUser bool   // objects and questions, as the user of the kubeconfig
	server string // questions alone: its cluster may be another one than that of a kubeconfig
}

// findWay looks for the ways of a command.
func (sh *shell) findWay() ways {
	w := ways{flags: sh.context != "" || sh.kubeconfig != "", server: sh.server, kubeconfig: os.Getenv("KUBECONFIG")}
	if w.flags || w.server != "" || w.kubeconfig != "" {
		return w
	}
	if _, err := os.Stat(agentSocket()); err == nil {
		w.socket = "unix://" + agentSocket()
	}
	loaded, err := sh.loaded()
	if w.unread = err; err == nil {
		raw, _ := loaded.RawConfig()
		w.current = raw.CurrentContext
	}
	return w
}

// choose returns the first of: flags, BOURSE_SERVER, KUBECONFIG, the socket or the kubeconfig in the home folder. With
// both of the last two it chooses none: a command for a demo must not reach another cluster. Errors: Invalid;
// Unavailable if there is no way.
func (w ways) choose() (way, error) {
	switch {
	case w.flags:
		return way{asUser: true}, nil
	case w.server != "":
		return way{server: w.server}, checkServer(w.server)
	case w.kubeconfig != "":
		return way{asUser: true}, nil
	case w.unread != nil: // it may be of another cluster than the socket
		return way{}, w.unread
	case w.socket != "" && w.current != "":
		return way{}, api.Invalid("--context", "is missing: the agent at %s and the context %s of your kubeconfig may be of two clusters",
			w.socket, w.current).Fix("name one: --context %s, or export BOURSE_SERVER=%s", w.current, w.socket)
	case w.socket != "":
		return way{server: w.socket}, nil
	case w.current != "":
		return way{asUser: true}, nil
	}
	return way{}, api.Errorf(api.CodeUnavailable, "no agent listens at %s, and there is no kubeconfig", agentSocket()).
		Fix("name the kubeconfig of your cluster: export KUBECONFIG=FILE (to try Bourse out: bourse demo)")
}

// checkServer checks the form of --server. Errors: Invalid.
func checkServer(server string) error {
	for _, scheme := range []string{"unix://", "https://", "http://"} {
		if strings.HasPrefix(server, scheme) {
			return nil
		}
	}
	return api.Invalid("--server", "%q is neither a URL nor a socket", server).
		Fix("use https://HOST:PORT or unix:///SOCKET")
}
