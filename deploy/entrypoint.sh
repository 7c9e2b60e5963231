#!/bin/sh
# Commands of a container: `web`, `work QUEUE` (edits, gpu, probes), `prepare`, or any of manage.py.
set -eu
case "${1:-web}" in
web)
	exec gunicorn convergebench_site.wsgi --bind 0.0.0.0:8000 --workers "${WEB_WORKERS:-2}" \
		--worker-tmp-dir /tmp --config python:convergebench_site.web_server
	;;
prepare)
	# Run once per release, before web and workers. Safe to repeat and to run twice at once.
	python manage.py migrate --no-input
	python manage.py storage make-bucket
	exec python manage.py load_benchmark --suites ${SUITES:-smoke}
	;;
*)
	exec python manage.py "$@"
	;;
esac
