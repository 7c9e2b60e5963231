#!/bin/sh
# Debian's Caddy is older than the one in the image caddy:2, and its buffer options have other names.
set -eu
sed 's/request_buffers \(.*\)/buffer_requests\n\t\tmax_buffer_size \1/' /etc/caddy/Caddyfile >/tmp/Caddyfile
exec caddy run --config /tmp/Caddyfile --adapter caddyfile
