"""Handlers of requests to resources, one module per verb, each with a function `async def verb(call) -> Response`."""
