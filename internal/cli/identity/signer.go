package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
)

// keyBits is the size of the key, in bits.
const keyBits = 2048

// signer has the key.
type signer struct {
	sign   jose.Signer
	public jose.JSONWebKey
}

func newSigner() (*signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make a key for workload identities: %w", err)
	}
	id := uuid.NewString()
	sign, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", id))
	if err != nil {
		return nil, fmt.Errorf("make a key for workload identities: %w", err)
	}
	return &signer{sign: sign, public: jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: string(jose.RS256), Use: "sig"}}, nil
}

// token is the signed form of what it says.
func (s *signer) token(c claims) (string, error) {
	text, err := jwt.Signed(s.sign).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a workload identity: %w", err)
	}
	return text, nil
}

// keySet is the public key as a JSON Web Key Set.
func (s *signer) keySet() ([]byte, error) {
	text, err := json.MarshalIndent(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.public}}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the public keys of workload identities: %w", err)
	}
	return append(text, '\n'), nil
}
