package requests

// AtOnePlace is atOnePlace.
const AtOnePlace = atOnePlace
