"""Deployment files use settings, images and commands that exist; nothing runs as root."""

from __future__ import annotations

import re
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
DEPLOY = ROOT / "deploy"
QUEUES = set(settings.RQ_QUEUES)
#: Settings that only other programs read.
OTHERS = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ENDPOINT_URL_S3",
    "AWS_DEFAULT_REGION",
    "SUITES",
}


def manifests() -> list[dict[str, Any]]:
    names = yaml.safe_load((DEPLOY / "kustomize/kustomization.yaml").read_text())["resources"]
    texts = [(DEPLOY / "kustomize" / name).read_text() for name in names]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text)]


@pytest.mark.parametrize(
    "manifest", manifests(), ids=lambda m: f"{m['kind']}-{m['metadata']['name']}"
)
def test_kubernetes_accepts_every_manifest(manifest: dict[str, Any]):
    kubernetes_validate.validate(manifest, "1.31", strict=True)
    pod = manifest["spec"].get("template", {}).get("spec", {})
    assert not pod or pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod.get("containers", ()):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert _is_command(container["args"])


@pytest.mark.release
@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not here")
def test_kubernetes_accepts_the_output_of_kustomize():
    """Check the manifests as `kubectl apply --kustomize` would send them, without a cluster."""
    made = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kustomize")],
        capture_output=True,
        text=True,
        check=True,
    )
    built = list(yaml.safe_load_all(made.stdout))
    assert len(built) == len(manifests())
    for manifest in built:
        assert manifest["metadata"]["namespace"] == "convergebench"
        kubernetes_validate.validate(manifest, "1.31", strict=True)
    names = {one["metadata"]["name"] for one in built if one["kind"] == "Deployment"}
    scaled = [one["spec"] for one in built if one["kind"] == "HorizontalPodAutoscaler"]
    assert {spec["scaleTargetRef"]["name"] for spec in scaled} == {"edits", "gpu"} <= names
    source = (ROOT / "leaderboard/operation/monitoring.py").read_text()
    for spec in scaled:
        figure = spec["metrics"][0]["external"]["metric"]["name"]
        name = figure.removeprefix("convergebench_")
        assert f'"{name}"' in source, f"/metrics does not report {figure}"


def test_web_cannot_call_out_and_workers_cannot_call_private_networks():
    policies = [one for one in manifests() if one["kind"] == "NetworkPolicy"]
    (closed,) = [one["spec"] for one in policies if not one["spec"]["podSelector"]]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    leaves = {"web": False, "prepare": False, "edits": True, "probes": True, "gpu": True}
    pods = [one["spec"]["template"] for one in manifests() if "template" in one["spec"]]
    parts = {pod["metadata"]["labels"]["part"]: pod["metadata"]["labels"] for pod in pods}
    assert parts.keys() == leaves.keys()
    for part, labels in parts.items():
        blocks = [
            to["ipBlock"]
            for policy in policies
            if _selects(policy["spec"]["podSelector"], labels)
            for rule in policy["spec"].get("egress", ())
            for to in rule["to"]
            if "ipBlock" in to
        ]
        public = [block for block in blocks if not ip_network(block["cidr"]).is_private]
        assert bool(public) is leaves[part], part
        for block in public:
            except_ = [ip_network(one) for one in block["except"]]
            for own in ("10.1.2.3", "169.254.169.254", "192.168.1.1", "fd00::1", "fe80::1"):
                if (address := ip_address(own)).version == except_[0].version:
                    assert any(address in one for one in except_), own


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return all(
        labels.get(name) == value for name, value in selector.get("matchLabels", {}).items()
    ) and all(
        one["operator"] == "In" and labels.get(one["key"]) in one["values"]
        for one in selector.get("matchExpressions", ())
    )


def test_our_images_are_named_by_digest():
    text = (DEPLOY / "kustomize/kustomization.yaml").read_text()
    images = {one["name"]: one for one in yaml.safe_load(text)["images"]}
    pods = [one["spec"]["template"]["spec"] for one in manifests() if "template" in one["spec"]]
    for image in {container["image"] for pod in pods for container in pod["containers"]}:
        assert images[image]["digest"].startswith("sha256:")
        assert "newTag" not in images[image]


def test_compose_uses_existing_settings_images_and_commands():
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    known = (ROOT / "convergebench_site/settings.py").read_text()
    ours = {n: s for n, s in compose["services"].items() if "env_file" in s}
    assert set(ours) == {"prepare", "web", "edits", "probes", "gpu"}
    for service in ours.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert _is_command(service["command"])
        for name in service["environment"].keys() - OTHERS:
            assert f'"{name}"' in known, name
    published = [name for name, service in compose["services"].items() if "ports" in service]
    assert published == ["proxy"], "nothing else is reachable from outside"
    asked = set(re.findall(r"\$\{(\w+)\}", (ROOT / "compose.yaml").read_text()))
    example = (DEPLOY / "example.env").read_text()
    assert all(f"{name}=" in example for name in asked)


def test_the_settings_of_a_new_site_are_filled_with_fresh_keys():
    script = [str(DEPLOY / "make_env.sh"), "bench.example"]
    first, second = (
        dict(
            line.split("=", 1)
            for line in subprocess.run(
                script, capture_output=True, text=True, check=True
            ).stdout.splitlines()
        )
        for _ in range(2)
    )
    assert first["DOMAIN"] == "bench.example"
    assert all(first[name] and first[name] != second[name] for name in first if name != "DOMAIN")
    from cryptography.fernet import Fernet

    Fernet(first["FIELD_KEYS"].encode())


def test_the_image_does_not_run_as_root_and_contains_its_commands():
    text = (ROOT / "Containerfile").read_text()
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert "--only-binary :all:" in text
    for name in re.findall(r"/app/(deploy/\S+?)\"", text):
        assert (ROOT / name).stat().st_mode & 0o111, f"{name} can be executed"
    if shell := shutil.which("sh"):
        for script in DEPLOY.glob("*.sh"):
            subprocess.run([shell, "-n", str(script)], check=True)


def _is_command(args: list[str]) -> bool:
    if args[0] == "work":
        return args[1] in QUEUES
    return args[0] in ("web", "prepare")


def test_the_proxies_pass_what_the_site_reads():
    caddy = (DEPLOY / "Caddyfile").read_text()
    nginx = (ROOT / "docs/operating.md").read_text()
    for start, limit in settings.LONG_BODY_LIMITS.items():
        size = limit // 2**20
        assert re.search(rf"request_body {start}\* {{\s+max_size {size}MiB", caddy)
        assert re.search(rf"location {start} +{{ client_max_body_size {size}m;", nginx)
        # The proxy applies all matching limits, so the general limit must exclude this URL.
        assert f"{start}*" in re.search(r"@others not path (.*)", caddy)[1].split()
    assert f"request_body @others {{\n\t\tmax_size {settings.BODY_LIMIT // 2**20}MiB" in caddy
    assert len(re.findall(r"request_body", caddy)) == len(settings.LONG_BODY_LIMITS) + 1


def test_every_alert_fires_when_it_should_and_only_then():
    """Run promtool, which is in Debian's package prometheus, on the rules."""
    folder = DEPLOY / "prometheus"
    rules = yaml.safe_load((folder / "alerts.yaml").read_text())["groups"][0]["rules"]
    expected = yaml.safe_load((folder / "alerts_test.yaml").read_text())["tests"]
    alerts = {rule["alert"] for rule in rules}
    for test, speaks in zip(expected, (True, False), strict=True):
        heard = {one["alertname"] for one in test["alert_rule_test"] if one["exp_alerts"]}
        asked = {one["alertname"] for one in test["alert_rule_test"]}
        assert (heard, asked) == (alerts if speaks else set(), alerts)
    if promtool := shutil.which("promtool"):
        for check in (
            ["check", "config", "prometheus.yaml"],
            ["test", "rules", "alerts_test.yaml"],
        ):
            done = subprocess.run([promtool, *check], cwd=folder, capture_output=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
