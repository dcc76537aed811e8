"""Makes containers and buckets for tests, with nothing but the standard library: qjam never makes one itself.

    python python/tests/containers.py azure://NAME s3://NAME

Whom to ask is in the environment, as for qjam itself. `cargo xtask test --only clouds` sets it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import sys
import urllib.request
from email.utils import formatdate
from typing import Dict


def make(url: str) -> None:
    kind, _, name = url.partition("://")
    if kind == "azure":
        request = _container(name)
    else:
        # The server of the tests asks nobody for a signature.
        request = urllib.request.Request(f"{os.environ['AWS_ENDPOINT_URL']}/{name}", method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status in (200, 201), answer.status


def _container(name: str) -> urllib.request.Request:
    """The request for a container, signed with the key of the account."""
    text = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    known = dict(part.split("=", 1) for part in text.split(";") if part)
    account = known["AccountName"]
    headers: Dict[str, str] = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    signed = "PUT" + "\n" * 12 + "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    signed += f"/{account}/{account}/{name}\nrestype:container"
    key = base64.b64decode(known["AccountKey"])
    code = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {account}:{code}"
    where = f"{known['BlobEndpoint']}/{name}?restype=container"
    return urllib.request.Request(where, method="PUT", headers=headers)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        make(wanted)
