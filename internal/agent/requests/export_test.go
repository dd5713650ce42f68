package requests

// Workers is workers.
const Workers = workers
