#!/bin/sh
# Takes the same command (`server /data`) and settings as MinIO.
set -eu
export S3_SERVER_USER="$MINIO_ROOT_USER" S3_SERVER_PASSWORD="$MINIO_ROOT_PASSWORD"
exec python -m leaderboard.testing.cluster.s3_server "$2" 9000 --host 0.0.0.0
