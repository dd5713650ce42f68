package api

// Severity says how serious a problem is.
type Severity string

const (
	SeverityError   Severity = "Error"   // something that was asked for does not work
	SeverityWarning Severity = "Warning" // something will not work, or is less safe than it should be
	SeverityInfo    Severity = "Info"    // worth knowing
)

// Problem is a problem that `bourse doctor` found.
type Problem struct {
	// Code is one of a closed list; docs/reference/problems.md says what each means.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Subject is the cluster or object that has the problem. Empty: this cluster.
	Subject string `json:"subject,omitempty"`
	Detail  string `json:"detail"`
	// Remedy is the exact fix.
	Remedy string `json:"remedy,omitempty"`
	// Argv is the remedy as the arguments of one command, if it is one.
	Argv Command `json:"argv,omitempty"`
}

// Diagnosis is the result of a doctor, worst problem first. Empty: no problem was found.
type Diagnosis struct {
	Problems []Problem `json:"problems"`
}

// ConditionHealthy of an Advertisement: the agent knows of no Error and no Warning.
const ConditionHealthy = "Healthy"
