# SPDX-License-Identifier: MIT
"""http.server of Python, with a thread for each connection: http.py PORT DIRECTORY"""

import functools
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 1000
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), functools.partial(
    Handler, directory=sys.argv[2])).serve_forever()
