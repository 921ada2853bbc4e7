"""RenewDelegationToken (39), versions 1-2: a delegation token expires later (KIP-48).

- The token is named by its HMAC. Its owner and its renewers may renew it; others get
  DELEGATION_TOKEN_OWNER_MISMATCH. It lives at most `delegation.token.max.lifetime.ms`.
- A period that is not positive stands for `delegation.token.expiry.time.ms`.
- A client that is not authenticated, or that is authenticated by a token, gets
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from odradek.handlers.delegation_tokens import expiry_handler
from odradek.wire.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.generated.renew_delegation_token_response import RenewDelegationTokenResponse

HANDLER = expiry_handler(RenewDelegationTokenRequest, RenewDelegationTokenResponse)
