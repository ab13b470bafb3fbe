// Command coredns is CoreDNS with only the plugins that a cluster's DNS needs; the stock build links every
// cloud's SDK and takes eight CPU-minutes more.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

// The order is the order in which the plugins handle a query; it is CoreDNS's own, less what is left out.
var directives = []string{"reload", "errors", "health", "ready", "cache", "loop", "kubernetes", "forward"}

func main() {
	dnsserver.Directives = directives
	coremain.Run()
}
