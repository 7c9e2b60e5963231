#!/bin/sh
# Prints settings for compose.yaml with fresh keys: deploy/make_env.sh bench.example > .env
set -eu
random() { head -c "$1" /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
cat <<END
DOMAIN=${1:-localhost}
SECRET_KEY=$(random 48)
FIELD_KEYS=$(random 32)
POSTGRES_PASSWORD=$(random 24 | tr -d '=')
VALKEY_PASSWORD=$(random 24 | tr -d '=')
S3_PASSWORD=$(random 24 | tr -d '=')
END
