package agent

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/server"
)

// distributedCatalog returns what the local API serves to clients of the Distributed Catalog, nil: nothing.
func (a *agent) distributedCatalog(hasLiqo bool, log *slog.Logger) func(context.Context, http.Handler, *server.Server) http.Handler {
	if !a.DistributedCatalog {
		return nil
	}
	return func(ctx context.Context, next http.Handler, local *server.Server) http.Handler {
		log.Info("the agent also answers clients of the Distributed Catalog", "socket", a.Socket, "listen", a.Listen, "under", "/api")
		return distributedcatalog.Connector(ctx, next, distributedcatalog.ConnectorOptions{
			Home: distributedcatalog.Objects{Client: a.mgr.GetClient(), Namespace: a.Namespace, Advertisement: a.AdvertisementName, Liqo: hasLiqo}, Server: local, URL: a.ConnectorURL, Log: log,
		})
	}
}
