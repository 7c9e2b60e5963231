#!/bin/sh
# Commands of a container: `web`, `work QUEUE` (edits, gpu, probes), `prepare`, or any of manage.py.
set -eu
case "${1:-web}" in
web)
	exec gunicorn convergebench_site.wsgi --bind 0.0.0.0:8000 --workers "${WEB_WORKERS:-2}" \
		--worker-tmp-dir /tmp --config python:convergebench_site.web_server
	;;
prepare)
	# Run this for each release, before web and workers start. It is safe to repeat, also in parallel.
	python manage.py migrate --no-input
	python manage.py storage make-bucket
	exec python manage.py load_benchmark --suites ${SUITES:-smoke}
	;;
*)
	exec python manage.py "$@"
	;;
esac
