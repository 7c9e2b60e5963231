#!/bin/sh
# Builds all images from Debian packages, pip and npm, for machines that can reach no image registry,
# and prints the settings that make compose.yaml use them: deploy/debian_images.sh >> .env
# Needs mmdebstrap and podman. With --settings it builds nothing and only prints the settings.
set -eu
cd "$(dirname "$0")/.."
base=localhost/debian
build() { podman build --build-arg "BASE=$base" "$@" >&2; }
if [ "${1:-}" != --settings ]; then
	deploy/base_image.sh "$base" >&2
	build --tag localhost/convergebench .
	build --tag localhost/convergebench-gpu --build-arg EXTRAS=site,worker,providers .
	for part in db valkey s3 proxy; do
		build --tag "localhost/convergebench-$part" --target "$part" deploy/parts
	done
fi
cat <<END
IMAGE=localhost/convergebench
GPU_IMAGE=localhost/convergebench-gpu
POSTGRES_IMAGE=localhost/convergebench-db
VALKEY_IMAGE=localhost/convergebench-valkey
S3_IMAGE=localhost/convergebench-s3
PROXY_IMAGE=localhost/convergebench-proxy
END
