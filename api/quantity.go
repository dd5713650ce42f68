package api

// QuantityPattern matches each amount that Bourse reads. Kubernetes reads more, for example exponents
// of nine digits, and needs hours for some of them. Nothing may make a number of a text that does not
// match, or that has more than [QuantityLength] characters.
const QuantityPattern = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`

// QuantityLength is how many characters an amount may have: 19 digits, nine decimals, sign and suffix fit.
const QuantityLength = 32
