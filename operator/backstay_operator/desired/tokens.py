"""Tokens of the pods' control port. A pod holds only a token's hash, so reading a pod's spec gives no control."""

import hashlib
import hmac


def token(key: bytes, uid: str) -> str:
    """The control token of a resource: HMAC-SHA256 of its uid, in hex. Nothing has to be stored."""
    return hmac.new(key, uid.encode(), hashlib.sha256).hexdigest()


def hash_of(token: str) -> str:
    """What the pods hold: SHA-256 of the token, in hex."""
    return hashlib.sha256(token.encode()).hexdigest()
