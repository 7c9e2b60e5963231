#!/bin/sh
# A base image from Debian's packages alone, where no registry of images can be reached:
#   deploy/base_image.sh localhost/debian && podman build --build-arg BASE=localhost/debian .
# Needs mmdebstrap and podman. MIRROR names another mirror than Debian's own.
set -eu
name="${1:-localhost/debian}"
mmdebstrap --variant=minbase --include=ca-certificates --aptopt='Apt::Install-Recommends "false"' \
	bookworm - ${MIRROR:+"$MIRROR"} | podman import - "$name"
