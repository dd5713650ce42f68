package health

import "github.com/bourse-dev/bourse/api"

const (
	bad  = api.SeverityError
	warn = api.SeverityWarning
	info = api.SeverityInfo
)

// The kinds of problems, by what has them.
var (
	// Liqo in this cluster.
	LiqoMissing = Kind{"LiqoMissing", warn,
		"The cluster has no Liqo.",
		"Reservations reach `Reserved` and stay there. No virtual node appears, and no pod runs.",
		"Install the Liqo version that the message names. The agent sees it by itself."}
	LiqoUntested = Kind{"LiqoUntested", warn,
		"Bourse was not tested with this minor version of Liqo, which is newer than the tested one. It has each " +
			"capability that Bourse needs.",
		"The agent uses this Liqo. It may behave differently from the tested version.",
		"Run a test reservation before you depend on it, or install the tested version."}
	LiqoIncompatible = Kind{"LiqoIncompatible", bad,
		"This Liqo is older than the oldest version that Bourse uses, or lacks a capability. The message names it.",
		"Nothing new is reserved or peered. What runs stays as it is. An agent that starts with such a Liqo does not use it.",
		"Install the Liqo version that the message names. The agent sees it by itself."}
	LiqoUnknown = Kind{"LiqoUnknown", warn,
		"The Liqo version could not be determined.",
		"The broker cannot check compatibility with other clusters.",
		"Give the Deployment `liqo-controller-manager` the label `app.kubernetes.io/version`."}
	LiqoModuleOff = Kind{"LiqoModuleOff", bad,
		"A Liqo module that lending and borrowing need is disabled.",
		"Nothing new is reserved or peered. What runs stays as it is. An agent that starts with such a Liqo does not use it.",
		"Enable the module with `helm upgrade`. The agent sees it by itself."}
	LiqoKeyUnusable = Kind{"LiqoKeyUnusable", bad,
		"The key of this cluster's Liqo is not Ed25519.",
		"The cluster can lend, but it cannot borrow: every provider refuses the key.",
		"Give Liqo an Ed25519 key, as the message says."}
	LiqoWebhookDown = Kind{"LiqoWebhookDown", bad,
		"The API server gets no answer from Liqo's webhook.",
		"The API server refuses every object that the webhook checks, such as ResourceSlices.",
		"Look at the webhook's pods in Liqo's namespace."}
	AmountsUnchecked = Kind{"AmountsUnchecked", bad,
		"Liqo's webhook decodes the amounts of a ShadowPod before any policy looks at them.",
		"One ShadowPod of a consumer can stop Liqo's webhook for hours. Then the API server accepts no pods of consumers.",
		"Add the conditions to the webhook by the command in the message."}
	AmountUnreadable = Kind{"AmountUnreadable", bad,
		"An object of Liqo's has an amount that takes very long to read.",
		"The agent reads the amount as 0. Liqo's own controllers and webhook may hang.",
		"Find out who wrote the object, and delete it. The policies of `config/liqo` let no such object in."}
	LimitsNotEnforced = Kind{"LimitsNotEnforced", info,
		"Liqo does not limit pods of hand-made peerings to the granted amounts.",
		"Those pods can use more than was granted. Bourse's policies limit brokered consumers in any case.",
		"Set `controllerManager.config.defaultLimitsEnforcement=Hard` in Liqo's Helm values."}
	DefaultClassOpen = Kind{"DefaultClassOpen", info,
		"Liqo's own ResourceSlice class `default` grants every amount that a consumer asks for.",
		"Hand-made peerings can use that class. Brokered consumers cannot.",
		"Since Liqo 1.3: set `authentication.defaultResourceSliceClassEnabled=false` in Liqo's Helm values. Before, peer by " +
			"hand only with clusters that you trust completely."}
	APIServerLocal = Kind{"ApiServerLocal", warn,
		"The address of this cluster's API server on its card is a local one, such as 127.0.0.1.",
		"Consumers elsewhere cannot reach the API server, so they cannot borrow here.",
		"Tell Liqo an address that consumers reach: `apiServer.address` in its Helm values."}
	APIServerUnknown = Kind{"ApiServerUnknown", warn,
		"Liqo does not know the address of this cluster's API server.",
		"Consumers do not learn the address, so they cannot borrow here.",
		"Tell Liqo the address: `apiServer.address` in its Helm values."}
	APIServerSilent = Kind{"ApiServerUnreachable", bad,
		"The API server does not answer at the address on the card.",
		"Consumers cannot borrow here.",
		"Check the address and the firewall, or tell Liqo another address."}
	TolerationSeconds = Kind{"TolerationSeconds", info,
		"Offloaded pods stay on a virtual node that is not Ready until their toleration ends.",
		"Kubernetes replaces such pods elsewhere only after that time.",
		"Give the pods a shorter `tolerationSeconds`."}
	WouldOffloadOthers = Kind{"WouldOffloadOthers", warn,
		"A NamespaceOffloading selects every virtual node, also those of providers that come later.",
		"A new provider would get the pods and Secrets of that namespace. Requests that would add a provider stop.",
		"Name the providers in its `clusterSelector`, or label the namespace `bourse.dev/offload-to-any: \"true\"`."}
	NodeNotReady = Kind{"NodeNotReady", bad,
		"A reservation is Active, but its virtual node is not Ready.",
		"No new pod runs there. Kubernetes evicts pods from the node after their toleration.",
		"Read the message. Check that this cluster reaches the provider's API server, and that the pods of Liqo run."}
	NotReflected = Kind{"NotReflected", warn,
		"Liqo fails to copy objects of an offloaded namespace to the provider.",
		"Pods there lack these objects.",
		"Change the objects as the message says: most often a policy of the provider refuses them."}
	QuotaUsedUp = Kind{"QuotaUsedUp", warn,
		"The provider's Liqo refuses pods that are bound to the virtual node. Pods that have ended hold its quota until they are deleted.",
		"The pods wait at the virtual node, however much of it seems free.",
		"Delete pods that have ended, also those that Failed. For Jobs, set `ttlSecondsAfterFinished`. Otherwise make the reservation larger."}
	ReflectsMore = Kind{"ReflectsMore", warn,
		"More Secrets, ConfigMaps or Services would go, or go, to a provider than a request allows. " +
			"All virtual nodes with a provider share what Liqo copies there.",
		"A namespace that is not at the provider yet is not offloaded to it. One that is there already has more copied.",
		"Release the request and exclude the provider, allow as much by `offload.reflect`, " +
			"or end the requests or virtual nodes that copy more."}
	NamespacesFull = Kind{"NamespacesFull", warn,
		"A provider maps no more namespaces of this cluster: `namespaces.max` of its SharingPolicy is reached.",
		"The namespaces that the message names are not offloaded to it. Their pods do not run there.",
		"Offload fewer namespaces there, or ask the provider's admin to raise `namespaces.max`."}
	VolumesAtStake = Kind{"VolumesAtStake", warn,
		"The end of a request would delete volumes. Its deletion waits for the user, or its time ends within a day.",
		"When the reservation ends, its provider deletes the namespaces that it offloads, with all volumes in them.",
		"Copy the data, extend the reservation, or give up the volumes: `docs/borrow.md`."}
	WithoutRequest = Kind{"ReservationWithoutRequest", warn,
		"This cluster signed a reservation that its own Ledger does not know. The Ledger is older than the reservation, " +
			"as after a restored backup.",
		"No request uses the reservation. It takes capacity at its provider, and is paid for, until its end.",
		"End it at the agent's socket: `bourse release ID --without-request`."}
	ServiceNamedLikeAPod = Kind{"ServiceNamedLikeAPod", warn,
		"A Service in an offloaded namespace has the name of a pod, and Liqo's networking is on.",
		"When that pod is offloaded, Liqo v1.2 deletes the Service and its EndpointSlices. StatefulSets with a Service " +
			"per pod are affected.",
		"Give the Service another name before the pod is offloaded."}

	// VirtualNodePools.
	PoolInvalid = Kind{"VirtualNodePoolInvalid", bad,
		"The spec of a VirtualNodePool is not valid.",
		"The pool reserves nothing more. Its reservations stay to their end.",
		"Correct the field that the message names."}
	DemandLimited = Kind{"DemandLimited", warn,
		"A VirtualNodePool does not serve all of its demand. The reason is `Max`, `MaxPrice`, `AtMost`, " +
			"`Spread`, `NoCandidate`, " +
			"`CapReached`, `TooFar`, `BrokerUnavailable` or `PodsKeep`.",
		"Some pods of its namespaces stay Pending.",
		"Read `bourse vnp why NAME`. Raise the limit that it names, or admit more providers."}
	NotExtended = Kind{"NotExtended", warn,
		"The VirtualNodePool did not extend a reservation within 5 minutes after half of its time was over.",
		"When a quarter of its time is left, its provider is replaced. Its pods move within their PodDisruptionBudgets.",
		"Check the broker and the provider: `bourse vnp why NAME` names it."}
	AllNotReady = Kind{"AllNotReady", bad,
		"Most virtual nodes of a VirtualNodePool are not Ready. Or none is Ready, and no broker answers.",
		"This cluster is probably cut off. Nothing is replaced, and nothing grows.",
		"Check the network of this cluster."}
	VolumesKeep = Kind{"VolumesKeep", warn,
		"A provider that should leave a VirtualNodePool has bound volumes.",
		"It stays, and is paid for, because its end would delete them.",
		"Copy the data and delete the claims, or give the data up with the command in the message."}
	NamespaceTaken = Kind{"NamespaceTaken", warn,
		"Two VirtualNodePools name the same namespace.",
		"The older pool has it. The other ignores its pods.",
		"Take the namespace out of one of the two."}
	PoolNotOffloaded = Kind{"PoolNotOffloaded", warn,
		"Namespaces of a VirtualNodePool are not offloaded to its providers: they do not exist, their names are too " +
			"long, or an agent refuses.",
		"Their pods run at no provider.",
		"Do what the message says for each namespace, or take it out of the VirtualNodePool."}
	ProviderDisabled = Kind{"ProviderDisabled", info,
		"A provider that serves a VirtualNodePool was disabled at the broker.",
		"It leaves the VirtualNodePool when half of its time is over. Its pods move within their PodDisruptionBudgets.",
		"Nothing to do. To let it leave at once, use the command in the message."}
	ProviderPassedOver = Kind{"ProviderPassedOver", info,
		"A provider has what this cluster lends on by a VirtualNodePool, or maps no more of its namespaces.",
		"New ResourceRequests of this cluster get nothing from that provider.",
		"Nothing to do, unless a request needs this provider: the message says how it gets it."}

	// Lending.
	PoliciesMissing = Kind{"PoliciesMissing", bad,
		"The admission policies that hold consumers to their reservations are not in force.",
		"The agent grants nothing until they are.",
		"Install the chart `bourse-base` (or apply `config/liqo`), with Kubernetes 1.30 or later."}
	PoliciesForAnother = Kind{"PoliciesForAnother", bad,
		"The admission policies in this cluster name an agent of another namespace or ServiceAccount.",
		"The agent grants nothing: the policies do not know its list of consumers.",
		"Run the agent as the message names it, or apply the policies for this one."}
	PoliciesNewer = Kind{"PoliciesNewer", info,
		"The admission policies in this cluster are newer than those of the agent.",
		"None: each of them denies what it must, and the agent lends. It changes no policy.",
		"Upgrade the agent, too: the chart `bourse-agent`."}
	ClusterIDCollides = Kind{"ClusterIDCollides", bad,
		"A consumer's cluster ID is also a user or group with rights here, or matches the end of a " +
			"well-known namespace name.",
		"Liqo would give that cluster those rights or that namespace. The agent does not peer with it.",
		"Rename the user or group, have the consumer choose another cluster ID, or do not lend to it."}
	ClusterIDTooLong = Kind{"ClusterIDTooLong", warn,
		"The cluster ID is too long for a cluster that borrows.",
		"No namespace can be offloaded: its name at a provider would have more than 63 characters. The cluster can lend.",
		"Install Liqo with a cluster ID of at most 61 characters."}
	ConsumersCrowded = Kind{"ConsumersCrowded", warn,
		"The list of brokered consumers uses 60 % of its space or more. It holds 1.3 MB: about 3,000 consumers of one pool.",
		"When the list is full, the agent peers with no further cluster.",
		"Lend to fewer clusters, or close peerings that nobody needs."}
	ConsumersMissing = Kind{"ConsumersMissing", bad,
		"The list of brokered consumers is missing, and the agent does not write it again.",
		"The admission policies refuse what consumers and Liqo change. Nothing new is lent or borrowed.",
		"Read the message: most often the agent lacks a right, or another policy refuses the ConfigMap."}
	SecretOfLiqo = Kind{"SecretOfLiqo", bad,
		"A Secret in a namespace of a consumer carries a label that makes Liqo act on it with Liqo's own rights.",
		"The consumer may have written the Secret before the admission policies were in force.",
		"Find out who made the Secret, then delete it."}
	APIServerProxy = Kind{"ApiServerProxyMissing", bad,
		"The SharingPolicy says `apiServerAccess: network`, but no network leads to this cluster's API server.",
		"Nobody can borrow here.",
		"Start the agent with `--network-gateway`, and install Liqo with networking and its proxy."}
	NothingShared = Kind{"NothingShared", info,
		"No SharingPolicy is in force.",
		"The cluster can borrow, but it shares nothing.",
		"To lend, create a SharingPolicy: `docs/objects/sharingpolicy.yaml`."}
	PolicyInvalid = Kind{"SharingPolicyInvalid", bad,
		"The SharingPolicy is not valid.",
		"The cluster shares nothing. Its reservations stay to their end.",
		"Correct the field that the message names."}
	AdvertisementRefused = Kind{"AdvertisementRefused", bad,
		"A broker refuses the card or the advertisement of this cluster.",
		"The others see there what the broker took last, until that is too old. Nothing new is sold there then.",
		"Correct the field that the message names. If it is none of the SharingPolicy, the broker may be older than the agent."}
	OfferRefused = Kind{"OfferRefused", warn,
		"An Offer is not on sale as written, or a broker refuses it.",
		"Buyers see its version before, or none.",
		"Correct the field that the message names: `bourse offer edit`."}
	Overcommitted = Kind{"Overcommitted", warn,
		"The reservations of this cluster add up to more than the cluster shares.",
		"The cluster gets no new reservations. Existing reservations stay.",
		"Share more in the SharingPolicy, or wait until reservations end."}
	NotCovered = Kind{"ReservedNotCovered", bad,
		"The cluster's own pods use capacity that other clusters reserved.",
		"Pods of those clusters may stay Pending.",
		"Move the cluster's own pods, add nodes, or give the pool nodes of its own: `docs/lend.md`."}
	HubIDTooLong = Kind{"HubIDTooLong", bad,
		"The SharingPolicy makes this cluster a hub, and its cluster ID is too long for one.",
		"No namespace of a customer reaches a provider: its name there would have more than 63 characters.",
		"Install Liqo with a cluster ID of at most 41 characters."}
	SoldBelowCost = Kind{"SoldBelowCost", warn,
		"The customers of this hub pay less in an hour than the hub pays for what they bought.",
		"The hub loses money.",
		"Raise the prices of its offers. What is sold keeps its price."}
	FieldIgnored = Kind{"FieldIgnored", warn,
		"The SharingPolicy has a field that no longer has an effect.",
		"The agent ignores the field.",
		"Remove the field. The message says what to do instead."}
	UnknownBroker = Kind{"UnknownBroker", warn,
		"The SharingPolicy names a broker that this cluster has not joined.",
		"The cluster shares at the other brokers that the policy names, and nowhere else.",
		"Join the broker with `bourse brokers add`, or remove its name from `spec.brokers`."}

	// Other clusters.
	KeyChanged = Kind{"KeyChanged", bad,
		"A cluster shows a different key from the pinned or confirmed one.",
		"The cluster was reinstalled, or somebody impersonates it. Nothing new is agreed with it.",
		"Ask its admin for the fingerprint, then run `bourse trust CLUSTER FINGERPRINT`."}
	KeyUnconfirmed = Kind{"KeyUnconfirmed", warn,
		"The SharingPolicy requires confirmed keys (`trust: pinned`), and nobody confirmed this cluster's key.",
		"Nothing new is agreed with that cluster.",
		"Ask its admin for the fingerprint, then run `bourse trust CLUSTER FINGERPRINT`."}
	VersionSkew = Kind{"VersionSkew", warn,
		"A peer runs another minor version of Liqo than this cluster.",
		"Liqo promises nothing about two minor versions. Running pods are not affected. Nothing new is reserved between the " +
			"two clusters if what their Liqos exchange differs: then the message names the capability.",
		"Bring both clusters to the same minor version."}
	MixedPeering = Kind{"MixedPeering", info,
		"The cluster has a hand-made peering and a brokered one with the same cluster.",
		"Bourse uses the hand-made peering and never changes it.",
		"Nothing to do."}
	PlainConsumerRefused = Kind{"PlainConsumerRefused", warn,
		"A cluster of `plainConsumers` has something here that the admission policies would refuse.",
		"Bourse grants it nothing and does not guard it until that is gone. Its `max` counts as allocated.",
		"Ask its admin to end what the message names: slices are of class `bourse`, with a name in `plainConsumers`; " +
			"namespaces are named NAMESPACE-CLUSTER."}
	LegacyAccounting = Kind{"LegacyAccounting", info,
		"A cluster runs an agent of a prototype. That agent counts a reservation and also the pods that use it.",
		"The cluster offers less than it has. You peer with it by hand.",
		"Replace its agent: `docs/migrate.md`."}
	PeeringStuck = Kind{"PeeringStuck", warn,
		"A peering has been opening or closing for more than two minutes.",
		"Reservations that need the peering do not become `Active`, or do not end completely.",
		"Read what it waits for: `kubectl -n bourse describe peering NAME`."}

	// The broker, and this agent.
	WaitsForToken = Kind{"WaitsForToken", warn,
		"The cluster has not joined a broker, and has no join token.",
		"The cluster deals with no broker. It starts to, without a restart, once there is a token.",
		"Ask the broker's operator for a token (`bourse broker token create`), and put it into the Secret " +
			"that the message names."}
	JoinRefused = Kind{"JoinRefused", bad,
		"The broker refused the join token, or the token is damaged.",
		"The cluster deals with no broker.",
		"Ask the broker's operator for a new token for this cluster, and replace the old one: in the Secret, or at `--join`."}
	ClonedIdentity = Kind{"ClonedIdentity", bad,
		"The agent's identity came from another cluster, as with a backup that was restored here.",
		"The agent connects to nobody: two clusters with one identity would answer for each other's reservations.",
		"If this cluster replaces the other one for good, stop the agent there, and run the command of the message. The " +
			"agent continues by itself."}
	IdentityReplaced = Kind{"IdentityReplaced", bad,
		"The object Agent `default` records an agent with another key or another Ledger. The agent's namespace was made " +
			"again or restored, or a second agent runs in another namespace.",
		"Other clusters know this one by the former key, and what the former Ledger promised is unknown here.",
		"Restore what the message names. If there are two agents, remove one. If it is lost for good, run the command of the " +
			"message."}
	TokenElsewhere = Kind{"TokenElsewhere", warn,
		"The join token in the Secret is another broker's. The cluster has joined already.",
		"The agent ignores the token, and never moves to another broker by itself.",
		"Delete the Secret. To join the other broker as well, use `bourse brokers add`."}
	BrokerUnreachable = Kind{"BrokerUnreachable", warn,
		"The broker does not answer.",
		"Existing reservations stay and end at their time. No new ones are made through this broker.",
		"Check that the broker runs and that this cluster reaches its URL."}
	NotAdmitted = Kind{"NotAdmitted", bad,
		"The broker answers, and refuses this cluster: its operator has not approved it yet, or has suspended or revoked it.",
		"Existing reservations stay and end at their time. No new ones are made through this broker.",
		"Ask the broker's operator, who reads the state with `bourse broker members`."}
	WithoutBroker = Kind{"WithoutBroker", warn,
		"No broker can be reached, or all brokers are disabled.",
		"The message lists what does not work now.",
		"Wait for a broker, or join another with `bourse brokers add`."}
	GoesOn = Kind{"GoesOn", info,
		"The message lists what still works while no broker can be reached.",
		"None.",
		"Nothing to do."}
	CertificateExpiring = Kind{"CertificateExpiring", warn,
		"A certificate was not renewed in time, or the token for the broker's cluster ends within a day.",
		"When it ends, the agent cannot use the broker, or a consumer's Liqo cannot use its provider.",
		"Follow the message: it names the certificate or the token. " +
			"The agent renews its certificate at half of its life, and Liqo its own at two thirds."}
	CertificateExpired = Kind{"CertificateExpired", bad,
		"A certificate ended, or the token for the broker's cluster did.",
		"Without a valid certificate for the broker, nothing new is reserved. " +
			"Without Liqo's certificate at a provider, running pods stay and cannot change.",
		"Follow the message. The agent renews its certificate by itself once it reaches the broker. A token " +
			"needs a replacement."}
	ClockSkew = Kind{"ClockSkew", warn,
		"The clock of this machine differs from the broker's.",
		"Signed documents may be refused as expired or not yet valid.",
		"Synchronize both clocks with NTP."}
	LedgerCrowded = Kind{"LedgerCrowded", warn,
		"A Ledger uses 60 % of its space or more. The agent keeps in it what it must not forget.",
		"The agent accepts nothing new. Existing reservations end and are freed as usual.",
		"Release or evict what nobody needs, or wait until some of it ends."}
	CRDsOlder = Kind{"CRDsOlder", bad,
		"The cluster serves older kinds of Bourse than the agent knows.",
		"The API server drops the fields that it does not know, without an error.",
		"Upgrade the chart `bourse-base` (or apply `config/crd`) before the agent."}
	RightsMissing = Kind{"RightsMissing", bad,
		"The caller lacks the Kubernetes permissions for this check.",
		"The check was skipped.",
		"Install the chart `bourse-agent` (or apply `config/rbac` and `config/liqo`), or use an admin's kubeconfig."}
	NotChecked = Kind{"NotChecked", warn,
		"A check failed with an error.",
		"The doctor does not know whether there is a problem.",
		"Fix the error in the message, then run `bourse doctor` again."}
)

// Kinds are all, in the order of the documentation.
var Kinds = []Kind{
	LiqoMissing, LiqoUntested, LiqoIncompatible, LiqoUnknown, LiqoModuleOff,
	LiqoKeyUnusable, LiqoWebhookDown, AmountsUnchecked, AmountUnreadable, LimitsNotEnforced, DefaultClassOpen,
	APIServerLocal, APIServerUnknown, APIServerSilent, TolerationSeconds, WouldOffloadOthers,
	NodeNotReady, NotReflected, QuotaUsedUp, ReflectsMore, NamespacesFull, VolumesAtStake, WithoutRequest,
	ServiceNamedLikeAPod,
	PoolInvalid, DemandLimited, NotExtended, AllNotReady, VolumesKeep, NamespaceTaken, PoolNotOffloaded,
	ProviderDisabled, ProviderPassedOver,
	PoliciesMissing, PoliciesForAnother, PoliciesNewer, ClusterIDCollides, ClusterIDTooLong, ConsumersMissing, ConsumersCrowded,
	SecretOfLiqo, APIServerProxy, NothingShared, PolicyInvalid, AdvertisementRefused, OfferRefused,
	Overcommitted, NotCovered,
	HubIDTooLong, SoldBelowCost, FieldIgnored, UnknownBroker,
	KeyChanged, KeyUnconfirmed, VersionSkew, MixedPeering, PlainConsumerRefused, LegacyAccounting, PeeringStuck,
	WaitsForToken, JoinRefused, ClonedIdentity, IdentityReplaced, TokenElsewhere, BrokerUnreachable, NotAdmitted,
	WithoutBroker, GoesOn,
	CertificateExpiring, CertificateExpired, ClockSkew, LedgerCrowded, CRDsOlder, RightsMissing, NotChecked,
}
