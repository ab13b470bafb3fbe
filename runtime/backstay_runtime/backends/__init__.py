"""Ways of attending over the paged cache, one of which serves a device."""
