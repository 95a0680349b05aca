"""OpenAI's protocol: bytes in, values out. Pure; knows neither stages nor Envoy.

A *document* is a parsed JSON body; an *operation* is what a request line asks for; a *hint* is what a
provider says about its quota; an *event* is one server-sent event.
"""
