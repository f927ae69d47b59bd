"""One file per verb: how each request to a resource is handled. All of them are `async def verb(call) -> Response`."""
