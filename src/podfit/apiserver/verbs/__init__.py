"""A verb a file: how each request to a resource is answered. All of them are `async def verb(call) -> Response`."""
