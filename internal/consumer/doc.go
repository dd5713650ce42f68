// Package consumer is the half of an agent that borrows.
//
// It carries out only what answers a ResourceRequest of its own cluster. [Requests] turns
// such an object into a reservation at the broker, and shows in Kubernetes what became of
// it; [Borrower] checks what the broker answers, signs the assignment, and believes that
// a provider is bound only by that provider's signature. A reservation ends by an observed
// deletion of its object, by the provider's signed word, or by its own time, and never
// because somebody says nothing about it.
package consumer
