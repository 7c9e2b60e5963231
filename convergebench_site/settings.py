"""All settings of the site. No other module of the site reads the environment.

Without any variable the site runs on one machine in one folder (DATA_DIR), which contains SQLite,
a Valkey socket, files and generated secrets. docs/operating.md lists every variable.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import environ
from cryptography.fernet import Fernet
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key
from whitenoise.compress import Compressor

from evaluation import __version__

_HERE = Path(__file__).resolve().parent
# In a wheel, the top-level folders of a checkout are in `installed` next to this file.
INSTALLED = not (_HERE.parent / "manage.py").is_file()
BASE_DIR = _HERE / "installed" if INSTALLED else _HERE.parent
env = environ.Env()
TESTING = "pytest" in sys.modules

DATA_DIR = (
    Path(env("DATA_DIR", default=str((Path.cwd() if INSTALLED else BASE_DIR) / "var")))
    .expanduser()
    .resolve()
)


# Only the owner can read new files, because the database contains sessions and tokens.
os.umask(0o077)


def _private(folder: Path) -> Path:
    """Create the folder with access for its owner only. Raises if others have access."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ImproperlyConfigured(f"Other users can access {folder}. Remove it and start again.")
    return folder


def _stored_secret(name: str, make: Callable[[], str]) -> str:
    """Return a secret that is generated on first use and stored in DATA_DIR."""
    path = DATA_DIR / name
    try:
        if path.exists():
            return path.read_text().strip()
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        # Write a temporary file, then link it: two processes that start together must get the same
        # secret.
        with tempfile.NamedTemporaryFile("w", dir=DATA_DIR, delete=False) as file:
            file.write(make())
        try:
            os.link(file.name, path)
        except FileExistsError:
            pass
        finally:
            Path(file.name).unlink()
    except OSError as error:
        raise ImproperlyConfigured(
            f"DATA_DIR {DATA_DIR} cannot be written ({error.strerror}); "
            "set DATA_DIR to a folder of your own, or set SECRET_KEY and FIELD_KEYS."
        ) from None
    return path.read_text().strip()


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env("SECRET_KEY", default="") or _stored_secret("secret_key", get_random_secret_key)
# Keys that encrypt stored secrets, newest first. Older keys are needed until
# `manage.py rotate_keys` has run.
FIELD_KEYS = env.list("FIELD_KEYS", default=[]) or [
    _stored_secret("field_key", lambda: Fernet.generate_key().decode())
]
HOST = env("HOST", default="127.0.0.1")
PORT = env.int("PORT", default=8000)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
_all_interfaces = HOST in ("0.0.0.0", "::")  # noqa: S104
if not _all_interfaces and HOST not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(HOST)
_site_host = "localhost" if HOST == "0.0.0.0" else HOST  # noqa: S104
SITE_URL = env("SITE_URL", default=f"http://{_site_host}:{PORT}")
HTTPS = SITE_URL.startswith("https://")
# If a proxy terminates TLS, forms have an https origin although the web server sees http.
CSRF_TRUSTED_ORIGINS = [f"https://{urlsplit(SITE_URL).netloc}"] if HTTPS else []
WEB_WORKERS = env.int("WEB_WORKERS", default=2)
#: Processes that score images; each uses one processor.
SCORE_WORKERS = env.int("SCORE_WORKERS", default=min(2, os.cpu_count() or 1))
#: Number of proxies in front of the web server, to find the visitor's address.
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=0)

INSTALLED_APPS = [
    "leaderboard",
    # Without autodiscovery: workers and commands do not need the admin, and urls.py loads it.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.sitemaps",
    "django.contrib.staticfiles",
    "django.forms",
    "axes",
    "corsheaders",
    "csp",
    "django_rq",
    "django_structlog",
    "import_export",
    "ninja",
    "simple_history",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "convergebench_site.middleware.RequestLimits",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "corsheaders.middleware.CorsMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    # Caches pages including the headers that the middleware below adds.
    "leaderboard.page_cache.PageCache",
    "csp.middleware.CSPMiddleware",
    "convergebench_site.middleware.WithoutInlineBlocks",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "convergebench_site.urls"
WSGI_APPLICATION = "convergebench_site.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "convergebench_site.context.site",
            ],
        },
    }
]
# Lets templates of the project render widgets.
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

# --- Database -------------------------------------------------------------------------
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'site.sqlite3'}")}
if "ENGINE" not in DATABASES["default"]:
    raise ImproperlyConfigured(
        "DATABASE_URL is not the address of a database, such as postgres://user@host/name or "
        "sqlite:////folder/site.sqlite3. Unset it to use SQLite in DATA_DIR."
    )
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        # Writers wait for the lock at BEGIN instead of failing within a transaction.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-20000;"
        ),
    }
    # Tests use a file too, because they start real workers that must see the same rows.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# Connecting to the database takes longer than the queries of most pages.
DATABASES["default"]["CONN_MAX_AGE"] = 60
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Queue ----------------------------------------------------------------------------
REDIS_URL = env("REDIS_URL", default="")
# A unix socket's path has at most 107 bytes. If DATA_DIR is too long, the socket is in the
# temporary folder.
REDIS_SOCKET = str(DATA_DIR / "valkey.sock")
if len(REDIS_SOCKET.encode()) > 100:
    _short = sha256(str(DATA_DIR).encode()).hexdigest()[:16]
    _folder = Path(tempfile.gettempdir()) / f"convergebench-{os.getuid()}-{_short}"
    REDIS_SOCKET = str((_folder if REDIS_URL else _private(_folder)) / "valkey.sock")
_queue = {
    **({"URL": REDIS_URL} if REDIS_URL else {"UNIX_SOCKET_PATH": REDIS_SOCKET, "DB": 0}),
    # Not pickle, so that Redis cannot make a worker run code. Workers use the same serializer and
    # call only the functions in `leaderboard.job_queue.FUNCTIONS`.
    "SERIALIZER": "rq.serializers.JSONSerializer",
    "DEFAULT_TIMEOUT": -1,
}
RQ_QUEUES = {"edits": dict(_queue), "probes": dict(_queue), "gpu": dict(_queue)}
RQ_SHOW_ADMIN_LINK = True
RQ = {"COMMIT_MODE": "on_db_commit"}

# --- Files ----------------------------------------------------------------------------
MEDIA_ROOT = DATA_DIR / "media"
STATIC_ROOT = Path(env("STATIC_ROOT", default=str(DATA_DIR / "static")))
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
FIXTURE_DIRS = [_HERE.parent / ("evaluation/fixtures" if INSTALLED else "fixtures")]
S3_BUCKET = env("S3_BUCKET", default="")
_media: dict[str, object] = {"BACKEND": "convergebench_site.storage.WholeFileStorage"}
if S3_BUCKET:
    _media = {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            # Endpoint, region and credentials come from AWS's own variables.
            "bucket_name": S3_BUCKET,
            "file_overwrite": True,
            "default_acl": None,
        },
    }
_static = "convergebench_site.storage.StaticFiles"
if DEBUG or TESTING:
    _static = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {"default": _media, "staticfiles": {"BACKEND": _static}}
WHITENOISE_USE_FINDERS = DEBUG or TESTING
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
# Source maps of vendored scripts are not served, and take longest to compress.
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = [*Compressor.SKIP_COMPRESS_EXTENSIONS, "map"]
# Limits on the length of a request's body, which are checked before it is read.
BODY_LIMIT = DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20
#: The maximum bytes of a bundle that the form accepts. Operators can import larger bundles.
CONTRIBUTED_BYTES = 256 * 2**20
LONG_BODY_LIMITS = {
    "/upload/": 122 * 2**20,
    "/contribute/": CONTRIBUTED_BYTES + 2**20,
    "/admin/": 80 * 2**20,
}
LONG_BODIES_AT_ONCE = 2
# More files than a chain may have, so that the upload page can report the error.
DATA_UPLOAD_MAX_NUMBER_FILES = 250
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20

_shared_cache = env.cache_url("CACHE_URL", default="locmemcache://")
if "Redis" in _shared_cache["BACKEND"]:
    # Not pickle, so that Redis cannot make the site run code.
    _shared_cache.setdefault("OPTIONS", {})["serializer"] = (
        "convergebench_site.caches.PlainSerializer"
    )
CACHES = {
    "default": _shared_cache,
    # Rate limits have a separate cache, so that pages do not evict their counters.
    "counters": _shared_cache | {"KEY_PREFIX": "counters"},
}
if "locmem" in _shared_cache["BACKEND"]:
    CACHES["default"] = {"BACKEND": "convergebench_site.caches.SizedCache", "LOCATION": "pages"}
    CACHES["counters"] |= {"LOCATION": "counters", "OPTIONS": {"MAX_ENTRIES": 20_000}}
RATELIMIT_USE_CACHE = "counters"
# These checks require a shared cache. Without CACHE_URL each web process counts for itself. That
# is sufficient, because quotas in the database are the strict limits.
SILENCED_SYSTEM_CHECKS = [
    *("django_ratelimit.E003", "django_ratelimit.W001"),
    "models.W040",  # SQLite ignores included columns of an index
]

# --- Sign-in --------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# Failed sign-ins are counted per network, for all user names together. A success does not reset the
# count: otherwise anyone with an account could go on trying the passwords of other users.
AXES_LOCKOUT_PARAMETERS = ["ip_address"]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 1
AXES_RESET_ON_SUCCESS = False
AXES_CLIENT_IP_CALLABLE = "leaderboard.visitors.client_network"
AXES_ENABLED = not TESTING
if TESTING:
    # The default hasher takes 0.3 s per password by design, and tests sign in often.
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGIN_URL = "admin:login"

# --- Security -------------------------------------------------------------------------
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
if HTTPS:
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$"]
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    if TRUSTED_PROXIES:
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CORS_ALLOW_ALL_ORIGINS = True
CORS_URLS_REGEX = r"^/(api/v1|badges)/.*$"
CORS_ALLOW_METHODS = ["GET", "HEAD", "OPTIONS"]

# --- The benchmark --------------------------------------------------------------------
#: Development only: allow submitted endpoints on this machine and with http.
ALLOW_LOCAL_ENDPOINTS = env.bool("ALLOW_LOCAL_ENDPOINTS", default=False)
#: Other hosts, addresses and networks of this site, which submitted endpoints may not use.
OWN_ADDRESSES = env.list("OWN_ADDRESSES", default=[])
#: Additional hosts to which a model's options may send the provider's key.
PROVIDER_HOSTS = env.list("PROVIDER_HOSTS", default=[])
#: Publish finished runs of submitted models without a review.
PUBLISH_AT_ONCE = env.bool("PUBLISH_AT_ONCE", default=False)
#: Names of the metrics that workers run; empty: all metrics that can run.
METRICS = env.list("METRICS", default=[])
#: Names of the witnesses (automatic checks of edits) of new runs; empty: all that can run.
WITNESSES = env.list("WITNESSES", default=[])
#: A vision-language model that judges the trips of finished runs; empty: no judge.
JUDGE_MODEL = env("JUDGE_MODEL", default="")
JUDGE_KIND = env("JUDGE_KIND", default="chat")
JUDGE_URL = env("JUDGE_URL", default="")
JUDGE_KEY = env("JUDGE_KEY", default="")
#: The judge's price in USD per million tokens of input and output, and its USD limit per run.
JUDGE_PRICE_IN = env.float("JUDGE_PRICE_IN", default=0)
JUDGE_PRICE_OUT = env.float("JUDGE_PRICE_OUT", default=0)
JUDGE_USD = env("JUDGE_USD", default="")
# Audited cases per run (audits: extra calls that test for cheating): this number, or one case in
# ten if that is more. 0: no audits.
AUDITS = env.int("AUDITS", default=12)
SUBMISSIONS_PER_DAY = env.int("SUBMISSIONS_PER_DAY", default=3)
#: Tests of an endpoint per day, of all its submissions together.
PROBES_PER_DAY = 20
#: Chains that one address can upload per day.
UPLOADED_CHAINS_PER_DAY = 60
#: Runs that one address can contribute per day, and contributed runs that can wait for a check.
CONTRIBUTED_RUNS_PER_DAY = 5
CONTRIBUTED_RUNS_WAITING = 10
#: Sessions of ten blind votes that a network or a voter can start per day.
VOTE_SESSIONS_PER_DAY = 200
#: Parallel calls of an `edits` worker. A model's own limit applies to all workers together.
MAX_CALLS_IN_FLIGHT = env.int("MAX_CALLS_IN_FLIGHT", default=64)
#: A worker that does not renew its leases (its claims to chains) for this long loses the chains.
LEASE_SECONDS = 30.0
#: After this time a job lets other runs in its queue continue.
TURN_SECONDS = 60.0
#: Seconds between two sweeps, in which each worker enqueues work whose job was lost.
SWEEP_SECONDS = 30.0
# File with the progress of installing scoring packages; `manage.py up` sets it for its processes.
SCORING_STATE = env("SCORING_STATE", default="")

# --- Mail, logs, errors ---------------------------------------------------------------
EMAIL_URL = env("EMAIL_URL", default="")
if EMAIL_URL:
    vars().update(env.email_url("EMAIL_URL"))
else:
    EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
# A mail server that does not respond must not block pages.
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env("DEFAULT_FROM_EMAIL", default="convergebench@localhost")
ADMINS = [("admin", address) for address in env.list("ADMINS", default=[])]
#: Shown on the page "About", for reports of errors and security problems.
CONTACT_EMAIL = env("CONTACT_EMAIL", default="")

LOG_LEVEL = env("LOG_LEVEL", default="INFO").upper()
LOGGING_CONFIG = "convergebench_site.logs.configure"
LOGGING = {"level": LOG_LEVEL, "json": HTTPS and not sys.stderr.isatty()}
DJANGO_STRUCTLOG_CELERY_ENABLED = False

SENTRY_DSN = env("SENTRY_DSN", default="")
if SENTRY_DSN:
    import sentry_sdk

    sentry_sdk.init(
        SENTRY_DSN,
        release=__version__,
        send_default_pii=False,
        # Local variables may contain a submitter's key.
        include_local_variables=False,
    )
PROMETHEUS = env.bool("PROMETHEUS", default=False)
if PROMETHEUS:
    INSTALLED_APPS.append("django_prometheus")
    MIDDLEWARE = [
        "django_prometheus.middleware.PrometheusBeforeMiddleware",
        *MIDDLEWARE,
        "django_prometheus.middleware.PrometheusAfterMiddleware",
    ]

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
