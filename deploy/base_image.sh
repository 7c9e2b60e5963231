#!/bin/sh
# Builds a base image from Debian packages, for machines that can reach no image registry:
#   deploy/base_image.sh localhost/debian && podman build --build-arg BASE=localhost/debian .
# Needs mmdebstrap and podman. MIRROR is a Debian mirror (default: Debian's own).
set -eu
name="${1:-localhost/debian}"
mmdebstrap --variant=minbase --include=ca-certificates --aptopt='Apt::Install-Recommends "false"' \
	bookworm - ${MIRROR:+"$MIRROR"} | podman import - "$name"
