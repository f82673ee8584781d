"""service.py: a web service that answers /thumb/N with what an extension in C made of it."""
import http.server
import json

import thumbs

recent = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        number = int(self.path.rpartition("/")[2])
        recent[number % 100] = self.path
        body = json.dumps({"sum": thumbs.make(number)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
