package requests

// What a test compares with the bounds of a Controller.
const (
	AtOnePlace   = atOnePlace
	Unanswered   = unanswered
	AnswerWithin = answerWithin
)
