#!/bin/sh
# Like the image `postgres`: the first start creates a cluster, a user and a database.
set -eu
data=/var/lib/postgresql/data/cluster
if [ ! -s "$data/PG_VERSION" ]; then
	rm -rf "$data.new" # left by an interrupted first start
	password=$(mktemp)
	printf '%s' "$POSTGRES_PASSWORD" >"$password"
	initdb --pgdata "$data.new" --username "$POSTGRES_USER" --pwfile "$password" \
		--auth-local trust --auth-host scram-sha-256 --encoding UTF8 --locale C.UTF-8
	rm "$password"
	echo "host all all all scram-sha-256" >>"$data.new/pg_hba.conf"
	pg_ctl --pgdata "$data.new" --wait --options "-c listen_addresses=''" start
	createdb --username "$POSTGRES_USER" --host /var/run/postgresql "$POSTGRES_DB"
	pg_ctl --pgdata "$data.new" --wait --mode fast stop
	mv "$data.new" "$data"
fi
exec postgres -D "$data" -c listen_addresses='*'
