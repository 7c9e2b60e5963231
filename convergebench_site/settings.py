"""All settings of the site; no other module of it reads the environment.

Without any variable it runs embedded: one machine and one folder (DATA_DIR) with SQLite, a
Valkey on a unix socket, files, and secrets that are created there. docs/operating.md lists every
variable.
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
# In a wheel the top-level files of a checkout are beside this file.
INSTALLED = not (_HERE.parent / "manage.py").is_file()
BASE_DIR = _HERE / "installed" if INSTALLED else _HERE.parent
env = environ.Env()
TESTING = "pytest" in sys.modules

DATA_DIR = (
    Path(env("DATA_DIR", default=str((Path.cwd() if INSTALLED else BASE_DIR) / "var")))
    .expanduser()
    .resolve()
)


# New files are readable by their owner alone: the database has sessions and tokens.
os.umask(0o077)


def _private(folder: Path) -> Path:
    """Create the folder for its owner alone. Raises if another user created it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ImproperlyConfigured(f"{folder} is not yours alone. Remove it and start again")
    return folder


def _stored_secret(name: str, make: Callable[[], str]) -> str:
    """Return a secret made on first use and stored in DATA_DIR for its owner alone."""
    path = DATA_DIR / name
    try:
        if path.exists():
            return path.read_text().strip()
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        # Written completely and then linked: if two processes start at once, both read the same
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
            "set DATA_DIR to your own folder, or set SECRET_KEY and FIELD_KEYS"
        ) from None
    return path.read_text().strip()


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env("SECRET_KEY", default="") or _stored_secret("secret_key", get_random_secret_key)
# Keys for secrets at rest, newest first; older ones are needed until `manage.py rotate_keys`.
FIELD_KEYS = env.list("FIELD_KEYS", default=[]) or [
    _stored_secret("field_key", lambda: Fernet.generate_key().decode())
]
HOST = env("HOST", default="127.0.0.1")
PORT = env.int("PORT", default=8000)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
_every_address = HOST in ("0.0.0.0", "::")  # noqa: S104
if not _every_address and HOST not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(HOST)
_own_name = "localhost" if HOST == "0.0.0.0" else HOST  # noqa: S104
SITE_URL = env("SITE_URL", default=f"http://{_own_name}:{PORT}")
HTTPS = SITE_URL.startswith("https://")
# If a proxy ends TLS, the origin of a form has another scheme than the web server sees.
CSRF_TRUSTED_ORIGINS = [f"https://{urlsplit(SITE_URL).netloc}"] if HTTPS else []
WEB_WORKERS = env.int("WEB_WORKERS", default=2)
#: Processes that score images: each uses at most one processor.
SCORE_WORKERS = env.int("SCORE_WORKERS", default=min(2, os.cpu_count() or 1))
#: Number of proxies before the web server; determines the address of a visitor.
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=0)

INSTALLED_APPS = [
    "leaderboard",
    # urls.py includes its pages: workers and commands need none of them.
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
    # Caches pages with the headers added below, such as the content policy.
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
# Widgets are drawn by templates of the project too.
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

# --- Database -------------------------------------------------------------------------
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'site.sqlite3'}")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        # Writers queue for the lock at BEGIN instead of failing in mid-transaction.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-20000;"
        ),
    }
    # A file also in tests: they start real workers, which must see the same rows.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# Opening the database takes longer than the queries of most pages.
DATABASES["default"]["CONN_MAX_AGE"] = 60
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Queue ----------------------------------------------------------------------------
REDIS_URL = env("REDIS_URL", default="")
# A unix socket's path has at most 107 bytes; a deep DATA_DIR gets one in the temporary folder.
REDIS_SOCKET = str(DATA_DIR / "valkey.sock")
if len(REDIS_SOCKET.encode()) > 100:
    _short = sha256(str(DATA_DIR).encode()).hexdigest()[:16]
    _folder = Path(tempfile.gettempdir()) / f"convergebench-{os.getuid()}-{_short}"
    REDIS_SOCKET = str((_folder if REDIS_URL else _private(_folder)) / "valkey.sock")
_queue = {
    **({"URL": REDIS_URL} if REDIS_URL else {"UNIX_SOCKET_PATH": REDIS_SOCKET, "DB": 0}),
    # JSON, not pickle. A worker is started with the same serializer, and calls only the
    # functions of `leaderboard.job_queue.FUNCTIONS`, whatever Redis contains.
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
# Source maps of vendored scripts: unused, and the largest part to compress.
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = [*Compressor.SKIP_COMPRESS_EXTENSIONS, "map"]
# Limit of a request's body before it is read; larger for uploads of files.
BODY_LIMIT = DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20
#: The largest bundle that the form takes, in bytes; operators import larger ones from a file.
CONTRIBUTED_BYTES = 256 * 2**20
LONG_BODY_LIMITS = {
    "/upload/": 122 * 2**20,
    "/contribute/": CONTRIBUTED_BYTES + 2**20,
    "/admin/": 80 * 2**20,
}
LONG_BODIES_AT_ONCE = 2
# More than an uploaded chain may have, so that its page can report the fault.
DATA_UPLOAD_MAX_NUMBER_FILES = 250
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20

_shared_cache = env.cache_url("CACHE_URL", default="locmemcache://")
if "Redis" in _shared_cache["BACKEND"]:
    # No pickle: a writer to Redis must not run code here.
    _shared_cache.setdefault("OPTIONS", {})["serializer"] = (
        "convergebench_site.caches.PlainSerializer"
    )
CACHES = {
    "default": _shared_cache,
    # Counters of visits have a separate cache, so that pages do not evict them.
    "counters": _shared_cache | {"KEY_PREFIX": "counters"},
}
if "locmem" in _shared_cache["BACKEND"]:
    CACHES["default"] = {"BACKEND": "convergebench_site.caches.SizedCache", "LOCATION": "pages"}
    CACHES["counters"] |= {"LOCATION": "counters", "OPTIONS": {"MAX_ENTRIES": 20_000}}
RATELIMIT_USE_CACHE = "counters"
# Without a shared cache (CACHE_URL) each web process counts for itself; the true limits
# are the quotas in the database.
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
# Wrong passwords count by network, whatever the name: a common password tried on many names counts
# as often as many passwords on one. A success resets nothing, or one account would buy more tries.
AXES_LOCKOUT_PARAMETERS = ["ip_address"]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 1
AXES_RESET_ON_SUCCESS = False
AXES_CLIENT_IP_CALLABLE = "leaderboard.visitors.client_network"
AXES_ENABLED = not TESTING
if TESTING:
    # The default hasher is slow by design (0.3 s for each password); tests sign in often.
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
#: Development only: allows submitted endpoints with http and on this machine.
ALLOW_LOCAL_ENDPOINTS = env.bool("ALLOW_LOCAL_ENDPOINTS", default=False)
#: Our further names, addresses and networks, which submitted endpoints may not name.
OWN_ADDRESSES = env.list("OWN_ADDRESSES", default=[])
#: Hosts that may receive a provider's key by a model's row, beside the provider's own.
PROVIDER_HOSTS = env.list("PROVIDER_HOSTS", default=[])
#: Publish finished runs of submitted models at once instead of after a review.
PUBLISH_AT_ONCE = env.bool("PUBLISH_AT_ONCE", default=False)
#: The metrics that workers run, by name; empty: all that can run there.
METRICS = env.list("METRICS", default=[])
#: The witnesses of new runs, by name; empty: all that can run there.
WITNESSES = env.list("WITNESSES", default=[])
#: A vision-language model that judges the trips of finished runs; unset: none.
JUDGE_MODEL = env("JUDGE_MODEL", default="")
JUDGE_KIND = env("JUDGE_KIND", default="chat")
JUDGE_URL = env("JUDGE_URL", default="")
JUDGE_KEY = env("JUDGE_KEY", default="")
#: Its price in USD per million tokens, and the limit for one run.
JUDGE_PRICE_IN = env.float("JUDGE_PRICE_IN", default=0)
JUDGE_PRICE_OUT = env.float("JUDGE_PRICE_OUT", default=0)
JUDGE_USD = env("JUDGE_USD", default="")
# Cases of a run that are audited, at least (or one in ten); 0 audits none.
AUDITS = env.int("AUDITS", default=12)
SUBMISSIONS_PER_DAY = env.int("SUBMISSIONS_PER_DAY", default=3)
#: Tests of one endpoint, counted over all its submissions.
PROBES_PER_DAY = 20
#: Uploaded chains of one address that are scored.
UPLOADED_CHAINS_PER_DAY = 60
#: Runs that one address can contribute, and the number that may wait for a check at once.
CONTRIBUTED_RUNS_PER_DAY = 5
CONTRIBUTED_RUNS_WAITING = 10
#: Sessions of ten blind votes that one network or one voter can have.
VOTE_SESSIONS_PER_DAY = 200
#: Calls in flight of one `edits` worker; a model's own limit holds over all workers.
MAX_CALLS_IN_FLIGHT = env.int("MAX_CALLS_IN_FLIGHT", default=64)
#: A worker that does not renew its leases for so long loses its chains.
LEASE_SECONDS = 30.0
#: After so long a job makes room for other runs in its queue.
TURN_SECONDS = 60.0
#: Interval at which each worker looks for work without a job.
SWEEP_SECONDS = 30.0
# A file with the stage of preparing scoring; `manage.py up` names it to its processes.
SCORING_STATE = env("SCORING_STATE", default="")

# --- Mail, logs, errors ---------------------------------------------------------------
EMAIL_URL = env("EMAIL_URL", default="")
if EMAIL_URL:
    vars().update(env.email_url("EMAIL_URL"))
else:
    EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
# A mail server that does not answer must not block pages.
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env("DEFAULT_FROM_EMAIL", default="convergebench@localhost")
ADMINS = [("admin", address) for address in env.list("ADMINS", default=[])]
#: Public, on the page "About": for reports of faults and security problems.
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
        # Local variables of a frame may hold a submitter's key.
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
