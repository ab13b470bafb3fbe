"""The gRPC port: each call is one request to the HTTP application, made without a socket, so both mean the same."""
