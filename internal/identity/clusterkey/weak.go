package clusterkey

import (
	"encoding/hex"
	"fmt"
)

// smallOrder lists the y coordinates, canonical or not, of the curve points of order 1, 2, 4 and 8. For such
// a "key" anyone can make signatures without a secret, and crypto/ed25519 accepts them. The zero value is
// one of them. The topmost bit, the sign of x, is cleared.
var smallOrder = [...]string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func (p PublicKey) checkStrength() error {
	unsigned := p
	unsigned[len(unsigned)-1] &= 0x7f
	y := hex.EncodeToString(unsigned[:])
	for _, weak := range smallOrder {
		if y == weak {
			return fmt.Errorf("%w: public key %s is weak, anyone could sign for it", ErrKey, p)
		}
	}
	return nil
}
