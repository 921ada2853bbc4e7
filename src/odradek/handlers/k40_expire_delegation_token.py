"""ExpireDelegationToken (40), versions 1-2: a delegation token expires at another time (KIP-48).

- The token is named by its HMAC. Its owner and its renewers may change the time; others get
  DELEGATION_TOKEN_OWNER_MISMATCH. A negative period removes the token at once.
- A client that is not authenticated, or that is authenticated by a token, gets
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from odradek.handlers.delegation_tokens import expiry_handler
from odradek.wire.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.generated.expire_delegation_token_response import ExpireDelegationTokenResponse

HANDLER = expiry_handler(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse)
