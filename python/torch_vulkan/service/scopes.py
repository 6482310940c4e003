"""What an API key may do."""

from typing import Literal, get_args

Scope = Literal["read", "submit", "publish", "admin"]
SCOPES = get_args(Scope)
