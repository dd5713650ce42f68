package resourceagent

import (
	"cmp"
	"encoding/json"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/trust"
)

// claims are facts that the prototypes' agents report and that decide nothing here: the price of their
// energy, their policy, their forecast of carbon, and their exact location. Readers of the advertisement
// get them back, as with the prototypes. They are in memory only: after a start, or when another broker
// takes over, they come with the next advertisement, within a minute.
type claims struct {
	mu sync.Mutex
	of map[string]claim
}

type claim struct {
	energyCost float64
	location   locationDTO // but what is on the card
	policy     string
	carbon     []float64
	carbonAt   json.RawMessage
}

const (
	maxForecast = 168 // hours of carbon intensity: a week
	maxInstant  = 64  // bytes
)

// claim is what an advertisement claims. Errors: Invalid with the field.
func (a *advertisementDTO) claim() (claim, error) {
	c := claim{policy: a.Policy, carbon: a.CarbonIntensity, carbonAt: a.CarbonLastUpdate}
	if len(c.carbon) > maxForecast {
		return c, api.Invalid("carbonIntensity", "it has %d values", len(c.carbon)).Fix("send at most %d", maxForecast)
	}
	if len(c.carbonAt) > maxInstant {
		return c, api.Invalid("carbonLastUpdate", "it has %d characters", len(c.carbonAt)).Fix("send a time")
	}
	if string(c.carbonAt) == "null" {
		c.carbonAt = nil
	}
	if a.Cost != nil {
		c.energyCost = a.Cost.EnergyCost
	}
	if a.Location != nil {
		c.location = *a.Location
		c.location.CountryCode, c.location.Region, c.location.City = "", "", ""
	}
	for field, text := range map[string]string{
		"policy": c.policy, "carbonLastUpdate": string(c.carbonAt),
		"location.continentCode": c.location.ContinentCode, "location.regionName": c.location.RegionName,
		"location.isp": c.location.ISP, "location.org": c.location.Org, "location.as": c.location.AS,
	} {
		if trust.Text(text) != text {
			return c, api.Invalid(field, "%.80q cannot be shown", text).Fix("use printable characters, at most 1024")
		}
	}
	return c, nil
}

// put stores a cluster's claims. Claims that it does not repeat stay, as with the prototypes, whose agents
// leave out facts that they did not measure again. They always send the location.
func (c *claims) put(cluster string, now claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.of[cluster]
	now.energyCost, now.policy = cmp.Or(now.energyCost, was.energyCost), cmp.Or(now.policy, was.policy)
	if now.carbon == nil {
		now.carbon, now.carbonAt = was.carbon, was.carbonAt
	}
	if c.of == nil {
		c.of = map[string]claim{}
	}
	c.of[cluster] = now
}

// add puts what a cluster claims into its advertisement.
func (c *claims) add(to *advertisementDTO) {
	c.mu.Lock()
	now := c.of[to.ClusterID]
	c.mu.Unlock()
	to.Policy, to.CarbonIntensity, to.CarbonLastUpdate = now.policy, now.carbon, now.carbonAt
	if now.energyCost != 0 {
		if to.Cost == nil {
			to.Cost = &costDTO{}
		}
		to.Cost.EnergyCost = now.energyCost
	}
	if now.location != (locationDTO{}) {
		if location := to.Location; location != nil {
			now.location.CountryCode, now.location.Region = location.CountryCode, location.Region
			now.location.City = location.City
		}
		to.Location = &now.location
	}
}
